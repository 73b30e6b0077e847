/** Since when things are as they are, by looking at them now and then. Time is an argument. */

interface Known {
  readonly state: string
  /** undefined: since before it was first looked at. */
  readonly sinceMs: number | undefined
  /** How often it has left `up`. */
  readonly losses: number
}

export class Since {
  #known: ReadonlyMap<string, Known> = new Map()

  /** All there are now, by their names; sinceMs: where it is known better. */
  look(
    states: Iterable<readonly [string, { readonly state: string; readonly sinceMs?: number }]>,
    nowMs: number,
  ): void {
    this.#known = new Map(
      Array.from(states, ([name, { state, sinceMs }]) => {
        const before = this.#known.get(name)
        const isSame = before === undefined || before.state === state
        const lost = before?.state === 'up' && !isSame ? 1 : 0
        const known: Known = {
          state,
          sinceMs: sinceMs ?? (isSame ? before?.sinceMs : nowMs),
          losses: (before?.losses ?? 0) + lost,
        }
        return [name, known]
      }),
    )
  }

  of(name: string): Pick<Known, 'sinceMs' | 'losses'> {
    return this.#known.get(name) ?? { sinceMs: undefined, losses: 0 }
  }
}
