/** `tollgate reload`: a running gateway takes its files as they are now, or says what it would take. */
import type { ReloadOutcome } from '../rules/reload-outcome.ts'
import { askAdmin, DEFAULT_ADMIN, refusalInWords } from './admin-client.ts'
import { FAILED, OK, REFUSED, type Edge } from './edge.ts'
import { inWords } from './radius-in-words.ts'

interface ReloadOptions {
  readonly admin?: string
  readonly dryRun?: boolean
  readonly json?: boolean
}

/** Prints what changes for whom, or every problem. */
export async function reloadCommand(
  { env, print, complain }: Pick<Edge, 'env' | 'print' | 'complain'>,
  { admin = DEFAULT_ADMIN, dryRun = false, json = false }: ReloadOptions,
): Promise<number> {
  const { status, body } = await askAdmin({ admin, env }, '/api/reload', { dryRun })
  const outcome = body as unknown as ReloadOutcome
  const isRefused = status === 422 && outcome.outcome === 'refused'
  if (status !== 200 && !isRefused) {
    complain(`tollgate: ${refusalInWords({ admin, env }, { status, body })}`)
    return FAILED
  }
  if (json) print(JSON.stringify(body, undefined, 2))
  else if (outcome.outcome === 'refused') {
    for (const problem of outcome.problems) print(problem)
    print(`refused; ${outcome.revision} stays in force`)
  } else if ('blastRadius' in outcome) {
    for (const line of inWords(outcome.blastRadius)) print(line)
    print(dryRun ? 'would be taken' : 'taken')
  }
  return isRefused ? REFUSED : OK
}
