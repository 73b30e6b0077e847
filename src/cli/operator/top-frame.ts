/** One frame of `tollgate top`. */
import type { Top } from '../../admin/overview/operations.ts'
import type { Tick } from '../../insight/api/live.ts'
import type { Overview } from '../../insight/live/overview.ts'
import type { Store } from '../../admin/system/operations.ts'
import { safe, type Look } from '../terminal/look.ts'
import { table } from '../terminal/table.ts'
import { id, number, type Column } from '../../tools/columns.ts'
import { clock, count, duration, gatewaysText, latency } from '../../insight/format.js'
import { plural, rate, sum } from '../../insight/format.js'
import { windowColumns } from './clients.ts'

export interface TopState {
  readonly overview: Overview
  readonly store: Store
  readonly top: Top
  /** undefined: the first second is still being counted. */
  readonly tick: Tick | undefined
  /** Only clients whose id contains it are shown. */
  readonly filter: string
  /** The new filter while it is being typed. */
  readonly typing: string | undefined
  readonly isPaused: boolean
  /** Time of the last data; left out: data arrives. */
  readonly silentSinceMs?: number | undefined
}

/** Head, rates, the table's head and one client, and the keys. */
const LEAST_LINES = 5

/** Returns as many lines as fit, none wider than the terminal. */
export async function topFrame(state: TopState, rows: number, look: Look): Promise<string[]> {
  const { top, filter } = state
  const clients = top.clients.filter(({ client }) => client.includes(filter))
  const lines = [headOf(state), ratesOf(state)].map((line) => cut(line, look))
  lines.splice(1, 0, ...wrongIn(state, look).slice(0, Math.max(0, rows - LEAST_LINES)))
  const shown = clients.slice(0, Math.max(1, rows - lines.length - 2))
  for await (const line of table(columnsOver(top.windowMs / 1_000), shown, look)) lines.push(line)
  if (shown.length === 0) lines.push(filter === '' ? 'No requests.' : `Nobody: /${filter}`)
  return [...lines, cut(footOf(state), look)]
}

const cut = (line: string, { columns }: Look): string =>
  line.length > columns ? `${line.slice(0, columns - 1)}…` : line

/** What needs attention, worst first, as the page has it. */
const wrongIn = ({ overview, silentSinceMs }: TopState, look: Look): string[] =>
  (silentSinceMs === undefined ? overview.attention : []).map(({ severity, text }) =>
    severity === 'bad'
      ? look.paint('red', cut(`!! ${safe(text)}`, look))
      : look.paint('yellow', cut(`! ${safe(text)}`, look)),
  )

function headOf({ overview, store, tick, top, silentSinceMs }: TopState): string {
  const nowMs = Date.parse(tick?.at ?? overview.asOf)
  if (silentSinceMs !== undefined) return `NO LIVE DATA since ${clock(silentSinceMs, nowMs)}`
  const workers = plural(overview.workers.listening, 'worker')
  const parts = [overview.gateway, workers, `${store.kind} ${store.state}`]
  parts.push(`rev ${overview.revision.slice(0, 6)}`, clock(nowMs, nowMs))
  return [...parts, gatewaysText(top.gateways)].join('  ')
}

function ratesOf({ tick, top }: TopState): string {
  if (tick === undefined) return 'The first whole second is being counted.'
  const { requests, refused, gatewayMs, backendMs } = tick
  const causes = Object.entries(refused).filter(([, many]) => many > 0)
  const why = causes.map(([cause, many]) => `${cause} ${count(many)}`).join(' ')
  const p99 = `p99 gateway ${latency(gatewayMs.p99)} backend ${latency(backendMs.p99)}`
  const here = top.gateways.answered.length > 1 ? ' here' : ''
  return `${count(requests)}/s${here}  refused ${count(sum(refused))}/s${why && ` (${why})`}  ${p99}`
}

function footOf({ top, filter, typing, isPaused }: TopState): string {
  if (typing !== undefined) return `/${typing}`
  const shown = filter === '' ? '' : ` · /${filter}`
  const pause = isPaused ? 'PAUSED, space' : 'space pause'
  const missing = top.error > 0 ? ` (<= ${count(top.error)} missing)` : ''
  return `last ${duration(top.windowMs)} by ${top.by}${missing}${shown} · r f l sort · / filter · ${pause} · q`
}

type TopClient = Top['clients'][number]
const columnsOver = (seconds: number): Column<TopClient>[] => [
  id('CLIENT', ({ client }) => client),
  number('REQ/S', ({ requests }) => requests / seconds, { write: rate }),
  number('REFUSED/S', ({ refused }) => sum(refused) / seconds, {
    write: rate,
    colour: ({ refused }) => (sum(refused) > 0 ? 'red' : undefined),
  }),
  ...windowColumns(bar, 1),
  number('MEAN', ({ meanMs }) => meanMs, { write: latency, drop: 2 }),
  number('MAX', ({ maxMs }) => maxMs, { write: latency, drop: 3 }),
]

const BAR = 4

const bar = (share: number): string =>
  `[${'#'.repeat(Math.min(BAR, Math.floor(share * BAR))).padEnd(BAR)}]`
