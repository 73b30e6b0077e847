/** What a run of a fuzzer has tried, and what it ends with when a property does not hold. */
export class Violation extends Error {
  /** Place in the batch of the script in which it showed. */
  readonly guilty: number | undefined

  constructor(problems: readonly string[], guilty?: number) {
    const shown = problems.slice(0, 6).map((problem) => problem.slice(0, 600))
    super(shown.join('\n'))
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
