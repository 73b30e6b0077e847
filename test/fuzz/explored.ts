/** What a run of a fuzzer has tried, and what it ends with when a property does not hold. */
import type { Step } from './grammar.ts'

export class Violation extends Error {
  /** Place in the batch of the script in which it showed. */
  readonly guilty: number | undefined

  constructor(what: string, guilty?: number) {
    super(what)
    this.guilty = guilty
  }
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

/** What was found, and the script of it ready to become a row of a table; undefined: nothing was. */
export function report(
  found: { what: string; script: { readonly steps: readonly Step[] } } | undefined,
  seed: number,
): string | undefined {
  if (found === undefined) return undefined
  const { steps, ...others } = { ...found.script, mutations: undefined }
  const text = steps.map((step) => (typeof step === 'string' ? printed(step) : String(step)))
  const more = JSON.stringify(others).slice(1, -1)
  return `${found.what}\nseed ${seed}\n{ ${more}, "steps": [${text.join(', ')}] },`
}

/** Runs of one byte are put short. */
function printed(text: string): string {
  return JSON.stringify(text).replaceAll(
    /([a-z])\1{99,}/g,
    (run, char: string) => `" + "${char}".repeat(${run.length}) + "`,
  )
}
