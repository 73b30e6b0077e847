/** `tollgate reload`: lets a running gateway take its files as they are now, or prints what would change. */
import type { ReloadOutcome } from '../config/changes/reload-outcome.ts'
import { askAdmin, DEFAULT_ADMIN, refusedBy } from './operator/admin-client.ts'
import { OK, REFUSED, type Edge } from './edge.ts'
import { overText } from '../insight/format.js'
import { inWords } from '../config/changes/radius-in-words.ts'

interface ReloadOptions {
  readonly admin?: string
  readonly dryRun?: boolean
  readonly json?: boolean
}

/** Prints what changes for whom, or every problem. */
export async function reloadCommand(
  { env, print }: Pick<Edge, 'env' | 'print'>,
  { admin = DEFAULT_ADMIN, dryRun = false, json = false }: ReloadOptions,
): Promise<number> {
  const { status, body } = await askAdmin({ admin, env }, '/api/reload', {
    method: 'POST',
    body: { dryRun },
  })
  const outcome = body as unknown as ReloadOutcome
  const isRefused = status === 422 && outcome.outcome === 'refused'
  if (status !== 200 && !isRefused) throw refusedBy({ admin, env }, { status, body })
  if (json) print(JSON.stringify(body, undefined, 2))
  else if (outcome.outcome === 'refused') {
    for (const problem of outcome.problems) print(problem)
    print(`refused; ${outcome.revision} stays in force`)
  } else if ('blastRadius' in outcome) {
    for (const line of inWords(outcome.blastRadius)) print(line)
    const over = outcome.over && overText(outcome.over)
    if (over) print(`! ${over}`)
    print(dryRun ? 'would be taken' : 'taken')
  }
  return isRefused ? REFUSED : OK
}
