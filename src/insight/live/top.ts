/**
 * Finds the busiest clients: sums by client in slices of five seconds. Each slice is bounded as in Space-Saving (Metwally et
 * al. 2005), but drops many clients at a time, and a client counts from when it entered. Time is an argument.
 */
import { fieldOf, perWindow, windowNames } from '../../config/time.ts'
import { zeros } from '../../core/record/metric-registry.ts'
import { addCounts, type TallyRow } from '../../core/record/tally.ts'
import { sum } from '../format.js'
import { BACK_SECONDS } from './seconds.ts'

const SLICE_SECONDS = 5
const KEPT_SECONDS = 900
/** Clients that remain in a slice when it is cut, which happens at GROWTH times as many: sorting for each thousand new ones would hold up all requests. */
const SLICE_CLIENTS = 1_000
const GROWTH = 8
/** Age from which a slice keeps only OLD_CLIENTS. */
const YOUNG_SECONDS = 120
const OLD_CLIENTS = 200
const LISTED = 50

const ofWindows = windowNames.map((name) => fieldOf('refused', name))
const others = ['requests', 'answered', 'totalMsSum', 'refusedBan', 'refusedOther'] as const
const summed = [...others, ...ofWindows] as const

interface Sum extends Record<(typeof summed)[number], number> {
  plan: string
  totalMsMax: number
}

interface Counted extends Sum {
  /** Upper bound of its requests before it was counted. */
  readonly before: number
}

interface Slice {
  /** Seconds of the slice: from `from` to before `to`. */
  readonly from: number
  to: number
  readonly clients: Map<string, Counted>
  /** Upper bound of the requests of any client that is not in the slice. */
  error: number
}

export class TopClients {
  /** Oldest first. */
  #slices: Slice[] = []

  add(at: number, rows: readonly TallyRow[]): void {
    const slice = this.#sliceOf(at)
    for (const row of rows) {
      const known = slice.clients.get(row.client)
      const sum = known ?? { ...nothing(row.plan), before: slice.error }
      addTo(sum, row)
      if (known === undefined) slice.clients.set(row.client, sum)
      if (slice.clients.size >= GROWTH * SLICE_CLIENTS) cut(slice, SLICE_CLIENTS)
    }
  }

  /** Busiest clients over whole slices that span windowMs or more, if that much is kept. */
  top(by: keyof typeof orders, windowMs: number) {
    const { clients, ...part } = this.part(by, windowMs)
    return { ...part, clients: listed(by, clients) }
  }

  /** The same for a sum over gateways: all that is known of up to SLICE_CLIENTS. */
  part(by: keyof typeof orders, windowMs: number) {
    const end = this.#slices.at(-1)?.to ?? 0
    const slices = this.#slices.filter(({ to }) => to > end - windowMs / 1000)
    const sums = new Map<string, Sum>()
    for (const { clients } of slices)
      for (const [client, counted] of clients) {
        const sum = sums.get(client) ?? nothing(counted.plan)
        addTo(sum, counted)
        sums.set(client, sum)
      }
    const order = orders[by]
    const all = Array.from(sums, ([client, sum]) => ({ client, ...rowOf(sum) }))
    all.sort((one, other) => order(other) - order(one))
    return {
      by,
      windowMs: slices.length === 0 ? windowMs : (end - (slices[0]?.from ?? end)) * 1000,
      error: slices.reduce((sum, { error }) => sum + error, 0),
      clients: all.slice(0, SLICE_CLIENTS),
    }
  }

  /** Busiest clients over the last minute or a little more. */
  busiest(count: number) {
    if (count === 0) return []
    return this.top('requests', 60_000).clients.slice(0, count)
  }

  #sliceOf(at: number): Slice {
    const from = at - (at % SLICE_SECONDS)
    if (at < (this.#slices.at(-1)?.to ?? 0) - 1 - BACK_SECONDS) this.#slices = []
    let slice = this.#slices.at(-1)
    // A clock that goes back by less must not open slices before others.
    if (slice === undefined || from > slice.from) {
      if (slice !== undefined) cut(slice, SLICE_CLIENTS)
      // The first slice begins when counting does.
      slice = { from: slice === undefined ? at : from, to: at, clients: new Map(), error: 0 }
      this.#slices = [...this.#slices.filter((one) => one.from > at - KEPT_SECONDS), slice]
      const old = this.#slices.findLast((one) => one.from <= at - YOUNG_SECONDS)
      if (old !== undefined) cut(old, OLD_CLIENTS)
    }
    slice.to = Math.max(slice.to, at + 1)
    return slice
  }
}

const nothing = (plan: string): Sum => ({ plan, totalMsMax: 0, ...zeros(summed) })

function addTo(sum: Sum, more: Readonly<Sum>): void {
  sum.plan = more.plan
  addCounts(summed, sum, more)
  if (more.totalMsMax > sum.totalMsMax) sum.totalMsMax = more.totalMsMax
}

/** Drops the clients with the fewest requests. */
function cut(slice: Slice, kept: number): void {
  if (slice.clients.size <= kept) return
  const most = ({ requests, before }: Counted): number => requests + before
  const least = [...slice.clients].sort(([, one], [, other]) => most(other) - most(one)).slice(kept)
  for (const [client] of least) slice.clients.delete(client)
  const [, first] = least[0] ?? []
  slice.error = Math.max(slice.error, first === undefined ? 0 : most(first))
}

type Row = ReturnType<typeof rowOf>

const orders = {
  requests: ({ requests }: Row) => requests,
  refusals: ({ refused }: Row) => sum(refused),
  latency: ({ answered, totalMs }: Row) => (answered === 0 ? 0 : totalMs / answered),
}

/** The first of an order, without those that have nothing of it. */
export const listed = <Given extends Row>(by: keyof typeof orders, rows: readonly Given[]) =>
  rows
    .filter((row) => orders[by](row) > 0)
    .sort((one, other) => orders[by](other) - orders[by](one))
    .slice(0, LISTED)
    .map(({ answered, totalMs, maxMs, ...row }) => ({
      ...row,
      /** Total time of a request at the gateway: mean and longest; null: none was admitted. */
      meanMs: answered === 0 ? null : rounded(totalMs / answered),
      maxMs: answered === 0 ? null : rounded(maxMs),
    }))

const rounded = (ms: number): number => Math.round(ms * 100) / 100

const rowOf = (sum: Sum) => ({
  plan: sum.plan,
  requests: sum.requests,
  refused: {
    ...perWindow(({ name }) => sum[fieldOf('refused', name)]),
    ban: sum.refusedBan,
    other: sum.refusedOther,
  },
  answered: sum.answered,
  totalMs: sum.totalMsSum,
  maxMs: sum.totalMsMax,
})
