/** Since when named things have been in their current state, found by polling. Time is an argument. */

interface StateSince {
  readonly state: string
  /** undefined: since before the first look. */
  readonly sinceMs: number | undefined
  /** How often it has left `up`. */
  readonly losses: number
}

export class Since {
  #known: ReadonlyMap<string, StateSince> = new Map()

  /** states: all things that exist now, by name. sinceMs: the exact time, where it is known. */
  look(
    states: Iterable<readonly [string, { readonly state: string; readonly sinceMs?: number }]>,
    nowMs: number,
  ): void {
    this.#known = new Map(
      Array.from(states, ([name, { state, sinceMs }]) => {
        const before = this.#known.get(name)
        const isSame = before === undefined || before.state === state
        const lost = before?.state === 'up' && !isSame ? 1 : 0
        const known: StateSince = {
          state,
          sinceMs: sinceMs ?? (isSame ? before?.sinceMs : nowMs),
          losses: (before?.losses ?? 0) + lost,
        }
        return [name, known]
      }),
    )
  }

  of(name: string): Pick<StateSince, 'sinceMs' | 'losses'> {
    return this.#known.get(name) ?? { sinceMs: undefined, losses: 0 }
  }
}
