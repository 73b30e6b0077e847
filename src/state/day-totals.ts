/** The totals of clients by day. */

/** One client on one day, under one plan. */
export interface DayRow {
  readonly client: string
  /** The plan under which the requests were decided. */
  readonly plan: string
  readonly admitted: number
  readonly refusedMinute: number
  readonly refusedDay: number
  readonly refusedBan: number
}

/** Sums by day, plan and client, in at most maxRows rows. */
export class DayTable {
  readonly #days = new Map<number, Map<string, Map<string, DayRow>>>()
  readonly #maxRows: number
  size = 0

  constructor(maxRows: number) {
    this.#maxRows = maxRows
  }

  /** Returns false where there is no room. */
  add(day: number, row: DayRow): boolean {
    const plans = this.#days.get(day)
    const clients = plans?.get(row.plan)
    const sum = clients?.get(row.client)
    if (clients !== undefined && sum !== undefined) {
      clients.set(row.client, plus(sum, row))
      return true
    }
    if (this.size >= this.#maxRows) return false
    this.size += 1
    const first: [string, DayRow] = [row.client, copyOf(row)]
    if (clients !== undefined) clients.set(...first)
    else if (plans !== undefined) plans.set(row.plan, new Map([first]))
    else this.#days.set(day, new Map([[row.plan, new Map([first])]]))
    return true
  }

  /** Removes and returns up to atMost rows of one day; undefined: there are none. */
  take(atMost: number): { readonly day: number; readonly rows: readonly DayRow[] } | undefined {
    for (const [day, plans] of this.#days) {
      const rows: DayRow[] = []
      for (const [plan, clients] of plans) {
        for (const [client, row] of clients) {
          if (rows.length >= atMost) break
          rows.push(row)
          clients.delete(client)
        }
        if (clients.size > 0) break
        plans.delete(plan)
      }
      if (plans.size === 0) this.#days.delete(day)
      this.size -= rows.length
      return { day, rows }
    }
    return undefined
  }

  of(day: number): readonly DayRow[] {
    return this.#clientsOf(day).flatMap((clients) => [...clients.values()])
  }

  find(day: number, client: string): readonly DayRow[] {
    return this.#clientsOf(day).flatMap((clients) => clients.get(client) ?? [])
  }

  removeBefore(day: number): void {
    for (const old of this.#days.keys()) {
      if (old >= day) continue
      for (const { size } of this.#clientsOf(old)) this.size -= size
      this.#days.delete(old)
    }
  }

  has(day: number): boolean {
    return this.#days.has(day)
  }

  get firstDay(): number | undefined {
    return this.size === 0 ? undefined : Math.min(...this.#days.keys())
  }

  /** One map for each plan. */
  #clientsOf(day: number): ReadonlyMap<string, DayRow>[] {
    return [...(this.#days.get(day)?.values() ?? [])]
  }
}

/** Copies these fields alone, as the row may have others. */
const copyOf = (row: DayRow): DayRow => {
  const { client, plan, admitted, refusedMinute, refusedDay, refusedBan } = row
  return { client, plan, admitted, refusedMinute, refusedDay, refusedBan }
}

const plus = (one: DayRow, other: DayRow, sign: 1 | -1 = 1): DayRow => ({
  client: one.client,
  plan: one.plan,
  admitted: one.admitted + sign * other.admitted,
  refusedMinute: one.refusedMinute + sign * other.refusedMinute,
  refusedDay: one.refusedDay + sign * other.refusedDay,
  refusedBan: one.refusedBan + sign * other.refusedBan,
})

/** Sums the rows of one client, at least one, under the plan of the first. */
export const totalOf = (rows: readonly DayRow[]): DayRow =>
  rows.reduce((sum, row) => plus(sum, row))

/**
 * Returns a row for each plan, from the total of a client on one day and the parts of it that were counted under other plans.
 * The rest was counted under the plan that the total names.
 */
export function splitByPlan(total: DayRow, parts: readonly DayRow[]): readonly DayRow[] {
  if (parts.length === 0) return [copyOf(total)]
  const rest = parts.reduce((left, part) => plus(left, part, -1), total)
  const table = new DayTable(Infinity)
  for (const row of [rest, ...parts]) table.add(0, row)
  return table.of(0)
}

export const isSomething = (row: Omit<DayRow, 'client' | 'plan'>): boolean =>
  row.admitted !== 0 || row.refusedMinute !== 0 || row.refusedDay !== 0 || row.refusedBan !== 0
