/** A client of a client file, judged as one under `clients`. */
import { client } from './client.ts'
import type { WrittenClient } from './config.ts'
import { withClientDefaults } from './defaults.ts'
import { checkClient } from './cross-checks.ts'
import type { PathProblem } from './problems.ts'
import { toProblems } from './schema.ts'
import type { Tree } from './tree.ts'

export interface Entry {
  /** undefined: its shape is wrong. */
  readonly client: WrittenClient | undefined
  /** Problems whose paths begin at the client. */
  readonly problems: readonly PathProblem[]
}

/** plans: the group `plans` of the configuration. */
export const readEntry = (entry: Tree, plans: Tree): Entry => {
  const { data, error } = client.safeParse(withClientDefaults(entry))
  const shape = error?.issues.flatMap((issue) => toProblems(issue, { entry })) ?? []
  const between = checkClient({ plans, clients: [entry] }, ['clients', 0])
  return {
    client: data,
    problems: [...shape, ...between.map((each) => ({ ...each, path: each.path.slice(2) }))],
  }
}
