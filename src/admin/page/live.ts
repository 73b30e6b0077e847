/** Data about the moment: the latest 15 minutes, kept current by events. Nothing runs while the page is hidden. */
import { askAgain, call, Fault, stream } from './api.ts'
import { causes } from '../../insight/format.js'
import type { Tick } from '../../insight/api/live.ts'
import type { Overview } from '../../insight/live/overview.ts'

/** change: what is kept here has changed; due: views ask again for what they show. */
type Topic = 'change' | 'due'

const SECONDS = 900
const SILENT_MS = 2_500
const GONE_MS = 6_000
const OVERVIEW_EVERY_MS = 5_000
const VIEW_EVERY_MS = 3_000
const LONGEST_WAIT_MS = 15_000
const EVENTS = '/api/events?types=tick,ban,reload,backend,store'

/** Latencies that the charts show, by their paths in a tick, which are those of their columns in an overview's seconds. */
const latencies = ['gatewayMs.p50', 'gatewayMs.p99', 'backendMs.p50', 'backendMs.p99']
const valueAt = (from: Tick | Overview['seconds'], name: string) =>
  name.split('.').reduce<unknown>((value, part) => Reflect.get(Object(value), part), from)

/** Values by second; null: not measured, which is a gap and not 0. */
export const columns: Record<string, (number | null)[]> = Object.fromEntries(
  ['requests', ...causes.map((cause) => `refused.${cause}`), ...latencies].map((name) => [
    name,
    Array.from({ length: SECONDS }, () => null),
  ]),
)
/** Unix second at each index. */
export const seconds: number[] = Array.from({ length: SECONDS }, (_, at) => at)

export const live = {
  overview: null as Overview | null,
  latest: null as Tick | null,
  state: 'connecting' as 'connecting' | 'live' | 'stale',
  paused: false,
  /** Why there is no live data. */
  cause: null as string | null,
  /** Time of the next try, by the page's clock. */
  nextTryMs: 0,
}

/** Difference of the server's clock from the page's. */
let aheadMs = 0
let lastTickMs = 0
/** Aborts all tries; attempt aborts the current one. */
let connection: AbortController | undefined
let attempt: AbortController | undefined
let triedMs = 0
/** Ends the wait between two tries. */
let wake = () => {}
let overviewDueMs = 0
let viewDueMs = 0

/** Current time by the gateway's clock. */
export const now = () => Date.now() + aheadMs

const listeners: Record<Topic, Set<() => unknown>> = { change: new Set(), due: new Set() }
/** Returns what ends it. */
export function listen(topic: Topic, listener: () => unknown) {
  listeners[topic].add(listener)
  return () => void listeners[topic].delete(listener)
}
const notify = (topic: Topic) => listeners[topic].forEach((listener) => listener())

function askViews() {
  viewDueMs = Date.now() + VIEW_EVERY_MS
  notify('due')
}

/** Makes `second` the last index; seconds skipped on the way are not measured. */
function advance(second: number) {
  const last = seconds[SECONDS - 1] ?? 0
  const steps = Math.min(second - last, SECONDS)
  if (steps <= 0) return
  for (const values of Object.values(columns)) {
    values.copyWithin(0, steps)
    values.fill(null, SECONDS - steps)
  }
  for (let at = 0; at < SECONDS; at++) seconds[at] = second - SECONDS + 1 + at
}

function put(second: number, valueOf: (name: string) => number | null | undefined) {
  const at = second - (seconds[0] ?? 0)
  if (at < 0 || at >= SECONDS) return
  for (const [name, values] of Object.entries(columns)) values[at] = valueOf(name) ?? null
}

function takeTick(tick: Tick) {
  const second = Math.floor(Date.parse(tick.at) / 1_000)
  lastTickMs = Date.now()
  live.latest = tick
  advance(second)
  put(second, (name) => valueAt(tick, name) as number | null)
  live.state = 'live'
  live.cause = null
  notify('change')
}

/** Fills gaps: seconds from before the page opened, and those without a connection. */
function takeSeconds(from: Overview['seconds']) {
  const first = Math.floor(Date.parse(from.from) / 1_000)
  advance(first + from.requests.length - 1)
  from.requests.forEach((requests, at) => {
    if (requests !== null) put(first + at, (name) => (valueAt(from, name) as (number | null)[])[at])
  })
}

async function refreshOverview() {
  overviewDueMs = Date.now() + OVERVIEW_EVERY_MS
  const overview: Overview = await call('/api/overview')
  aheadMs = Date.parse(overview.asOf) - Date.now()
  live.overview = overview
  live.latest ??= overview.latest
  takeSeconds(overview.seconds)
  notify('change')
}

/** Shows what an operator has changed, in the view and around it. */
export function changed(after: () => unknown) {
  after()
  refreshOverview().catch(() => {})
}

export function pause(paused: boolean) {
  live.paused = paused
  notify('change')
  if (!paused) askViews()
}

export function reconnect() {
  askAgain()
  wake()
}

async function connect() {
  const mine = (connection = new AbortController())
  const { signal } = mine
  for (let waitMs = 1_000; !signal.aborted; waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS)) {
    triedMs = Date.now()
    try {
      await refreshOverview()
      attempt = new AbortController()
      await stream(EVENTS, takeEvent, AbortSignal.any([signal, attempt.signal]))
      if (Date.now() - triedMs > LONGEST_WAIT_MS) waitMs = 1_000
    } catch (fault) {
      if (signal.aborted) return
      live.state = 'stale'
      live.cause = fault instanceof Fault ? `${fault.path}: ${fault.message}` : null
    }
    if (signal.aborted) return
    live.nextTryMs = Date.now() + waitMs
    notify('change')
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, waitMs)
      wake = () => (clearTimeout(timer), resolve(undefined))
      signal.addEventListener('abort', wake, { once: true })
    })
  }
}

function takeEvent(event: string, data: unknown) {
  if (event === 'tick') return takeTick(data as Tick)
  overviewDueMs = viewDueMs = 0
}

function everySecond() {
  const silentMs = Date.now() - lastTickMs
  if (silentMs > SILENT_MS) {
    if (live.state === 'live') live.nextTryMs = Date.now()
    // A connection may be open with nobody at its other end.
    if (Math.min(silentMs, Date.now() - triedMs) > GONE_MS) attempt?.abort()
    live.state = 'stale'
    advance(Math.floor(now() / 1_000) - 1)
    notify('change')
  }
  if (live.paused || live.state === 'stale') return
  // A failing stream shows faults anyway.
  if (live.state === 'live' && Date.now() >= overviewDueMs) refreshOverview().catch(() => {})
  if (Date.now() >= viewDueMs) askViews()
}

let timer: ReturnType<typeof setInterval> | undefined

function follow() {
  clearInterval(timer)
  connection?.abort()
  if (document.visibilityState === 'hidden') return
  lastTickMs = Date.now()
  timer = setInterval(everySecond, 1_000)
  void connect()
  if (!live.paused) askViews()
}

export function start() {
  document.addEventListener('visibilitychange', follow)
  follow()
}
