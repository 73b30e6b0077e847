/** What a run of a fuzzer has tried, and what it ends with when a property does not hold. */

import type { Conversation, Ending, Step } from './client-grammar.ts'

export class Violation extends Error {
  /** In whose answers it showed. */
  readonly guilty: Conversation | undefined

  constructor(what: string, guilty?: Conversation) {
    super(what)
    this.guilty = guilty
  }
}

/** The shortest script that breaks a property. */
export interface Found {
  readonly what: string
  readonly steps: readonly Step[]
  readonly ending: Ending
}

export class Explored {
  readonly #counts = new Map<string, number>()

  add(what: string, count = 1): void {
    this.#counts.set(what, this.count(what) + count)
  }
  count(what: string): number {
    return this.#counts.get(what) ?? 0
  }
  /** One line per kind; a kind is the first word of what was added. */
  lines(): string[] {
    const sorted = [...this.#counts].toSorted(([one], [other]) => (one < other ? -1 : 1))
    const kinds = Map.groupBy(sorted, ([what]) => what.split(' ')[0] ?? '')
    return Array.from(kinds.values(), (entries) =>
      entries.map(([what, count]) => `${what}: ${count}`).join(', '),
    )
  }
}

export const randomSeed = (): number =>
  Number(process.env['TOLLGATE_FUZZ_SEED'] ?? Math.floor(Math.random() * 1e9))

/** What was found, and the script of it ready to become a row of a table. */
export function report({ what, steps, ending }: Found, seed: number): string {
  const text = steps.map((step) => (typeof step === 'string' ? printed(step) : String(step)))
  return `${what}\nseed ${seed}\n{ steps: [${text.join(', ')}], ending: '${ending}' },`
}

/** Runs of one byte are put short. */
function printed(text: string): string {
  return JSON.stringify(text).replaceAll(
    /([a-z])\1{99,}/g,
    (run, char: string) => `" + "${char}".repeat(${run.length}) + "`,
  )
}
