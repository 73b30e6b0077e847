/** `tollgate reload`: lets a running gateway take its files as they are now, or prints what would change. */
import type { ReloadOutcome } from '../../config/changes/blast-radius.ts'
import { OK, REFUSED } from '../terminal/fault.ts'
import type { Declaration } from '../program.ts'
import type { Output } from '../edge.ts'
import { ask, asking, gatewayOf, type Asking } from './asking.ts'
import { overText } from '../../insight/format.js'
import { inWords, plannedInWords } from '../../config/changes/radius-in-words.ts'

interface ReloadOptions extends Asking {
  readonly dryRun?: boolean
}

type Planned = Extract<ReloadOutcome, { blastRadius: unknown }>

export const reload: Declaration = (program, { once }) =>
  asking(program, 'reload', 'let a running gateway take its files as they are now')
    .option('--dry-run', 'only say what would change')
    .action(once(() => (output: Output, options: ReloadOptions) => reloadCommand(output, options)))

/** Prints what changes for whom, or every problem. before: what comes first for a person. */
export async function reloadCommand(
  output: Output,
  options: ReloadOptions,
  before: (files: Planned['written']) => Promise<void> = () => Promise.resolve(),
): Promise<number> {
  const { print } = output
  const { dryRun = false, json = false } = options
  const call = { method: 'POST', body: { dryRun }, answersWith: 422 } as const
  const outcome = await ask<ReloadOutcome>(gatewayOf(output, options), '/api/reload', call)
  if (json) print(JSON.stringify(outcome, undefined, 2))
  else if (outcome.outcome === 'refused') {
    for (const problem of outcome.problems) print(problem)
    print(`refused; ${outcome.revision} stays in force`)
  } else if ('blastRadius' in outcome) {
    const { blastRadius, over, written } = outcome
    await before(written)
    const words = dryRun ? plannedInWords : inWords
    for (const line of words(blastRadius, over?.clients)) print(line)
    const isKnown = over?.count === 0 && over.missing === undefined
    const text = over && overText(over)
    if (text) print(isKnown ? text : `! ${text}`)
    print(dryRun ? 'would be taken' : 'taken')
  }
  return outcome.outcome === 'refused' ? REFUSED : OK
}
