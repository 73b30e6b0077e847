/** What clients did on a day, summed up. */

/** Of one client on one day. */
export interface DayRow {
  readonly client: string
  /** That it had last on this day; of what is added, not that of a row which only hands back. */
  readonly plan: string
  readonly admitted: number
  readonly refusedMinute: number
  readonly refusedDay: number
  readonly refusedBan: number
}

/** Written by DayTable alone. */
type Sum = { -readonly [Name in keyof DayRow]: DayRow[Name] }

/** Sums by day and client, no more than maxRows of them. */
export class DayTable {
  readonly #days = new Map<number, Map<string, Sum>>()
  readonly #maxRows: number
  size = 0

  constructor(maxRows: number) {
    this.#maxRows = maxRows
  }

  /** false: there is no room for it. */
  add(day: number, row: DayRow): boolean {
    const clients = this.#days.get(day)
    const sum = clients?.get(row.client)
    if (sum === undefined) {
      if (this.size >= this.#maxRows) return false
      this.size += 1
      const { client, plan, admitted, refusedMinute, refusedDay, refusedBan } = row
      const first = { client, plan, admitted, refusedMinute, refusedDay, refusedBan }
      if (clients === undefined) this.#days.set(day, new Map([[client, first]]))
      else clients.set(client, first)
      return true
    }
    if (!isRefund(row)) sum.plan = row.plan
    sum.admitted += row.admitted
    sum.refusedMinute += row.refusedMinute
    sum.refusedDay += row.refusedDay
    sum.refusedBan += row.refusedBan
    return true
  }

  /** Removes up to atMost rows of one day; undefined: there are none. */
  take(atMost: number): { readonly day: number; readonly rows: readonly DayRow[] } | undefined {
    for (const [day, clients] of this.#days) {
      const rows: DayRow[] = []
      for (const [client, row] of clients) {
        if (rows.length >= atMost) break
        rows.push(row)
        clients.delete(client)
      }
      if (clients.size === 0) this.#days.delete(day)
      this.size -= rows.length
      return { day, rows }
    }
    return undefined
  }

  of(day: number): readonly DayRow[] {
    return [...(this.#days.get(day)?.values() ?? [])]
  }

  find(day: number, client: string): DayRow | undefined {
    return this.#days.get(day)?.get(client)
  }

  removeBefore(day: number): void {
    for (const [old, clients] of this.#days) {
      if (old >= day) continue
      this.#days.delete(old)
      this.size -= clients.size
    }
  }

  has(day: number): boolean {
    return this.#days.has(day)
  }

  get firstDay(): number | undefined {
    return this.size === 0 ? undefined : Math.min(...this.#days.keys())
  }
}

/** It tells of no decision of this plan, but of the end of a request that may have begun under an old one. */
const isRefund = ({ admitted, refusedMinute, refusedDay, refusedBan }: DayRow): boolean =>
  admitted < 0 && refusedMinute === 0 && refusedDay === 0 && refusedBan === 0

export const isSomething = (row: Omit<DayRow, 'client' | 'plan'>): boolean =>
  row.admitted !== 0 || row.refusedMinute !== 0 || row.refusedDay !== 0 || row.refusedBan !== 0
