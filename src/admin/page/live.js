/** Data about the moment: the latest 15 minutes, kept current by events. Nothing runs while the page is hidden. */
import { askAgain, call, Fault, stream } from './api.js'

/** @import { Overview, Seconds, Tick } from '../../insight/api/live.ts' */
/** @typedef {'connecting' | 'live' | 'stale'} State */
/** @typedef {'tick' | 'overview' | 'state' | 'event' | 'visible'} Change */

const SECONDS = 900
const SILENT_MS = 2_500
const GONE_MS = 6_000
const OVERVIEW_EVERY_MS = 5_000
const LONGEST_WAIT_MS = 15_000
const EVENTS = '/api/events?types=tick,ban,reload,backend,store'

/** Values by second; null: not measured, which is a gap and not 0. */
const column = () => /** @type {(number | null)[]} */ (Array.from({ length: SECONDS }, () => null))

export const columns = {
  requests: column(),
  minute: column(),
  day: column(),
  ban: column(),
  other: column(),
  gatewayP50: column(),
  gatewayP99: column(),
  backendP50: column(),
  backendP99: column(),
}
/** @typedef {keyof typeof columns} ColumnName */
/** Unix second at each index. @type {number[]} */
export const seconds = Array.from({ length: SECONDS }, (_, at) => at)

export const live = {
  /** @type {Overview | null} */
  overview: null,
  /** @type {Tick | null} */
  latest: null,
  /** @type {State} */
  state: 'connecting',
  paused: false,
  /** Why there is no live data. @type {string | null} */
  cause: null,
  /** Time of the next try, by the page's clock. */
  nextTryMs: 0,
}

/** Difference of the server's clock from the page's. */
let aheadMs = 0
let lastTickMs = 0
/** Aborts all tries; attempt aborts the current one. @type {AbortController | undefined} */
let connection
/** @type {AbortController | undefined} */
let attempt
let triedMs = 0
/** Ends the wait between two tries. */
let wake = () => {}
let overviewDueMs = 0

/** Current time by the gateway's clock. */
export const now = () => Date.now() + aheadMs

/** @type {Set<(change: Change, detail?: any) => void>} */
const listeners = new Set()
/** @param {(change: Change, detail?: any) => void} listener */
export function listen(listener) {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}
/** @param {Change} change @param {any} [detail] */
const notify = (change, detail) => listeners.forEach((listener) => listener(change, detail))

/** Makes `second` the last index; seconds skipped on the way are not measured. @param {number} second */
function advance(second) {
  const last = seconds[SECONDS - 1] ?? 0
  const steps = Math.min(second - last, SECONDS)
  if (steps <= 0) return
  for (const values of Object.values(columns)) {
    values.copyWithin(0, steps)
    values.fill(null, SECONDS - steps)
  }
  for (let at = 0; at < SECONDS; at++) seconds[at] = second - SECONDS + 1 + at
}

/** @param {number} second @param {Partial<Record<ColumnName, number | null | undefined>>} values */
function put(second, values) {
  const at = second - (seconds[0] ?? 0)
  if (at < 0 || at >= SECONDS) return
  for (const [name, value] of Object.entries(values))
    columns[/** @type {ColumnName} */ (name)][at] = value ?? null
}

/** @param {Tick} tick */
function takeTick(tick) {
  const second = Math.floor(Date.parse(tick.at) / 1_000)
  lastTickMs = Date.now()
  live.latest = tick
  advance(second)
  const { gatewayMs, backendMs, refused, requests } = tick
  const latencies = { gatewayP50: gatewayMs.p50, gatewayP99: gatewayMs.p99 }
  put(second, { requests, ...refused, ...latencies })
  put(second, { backendP50: backendMs.p50, backendP99: backendMs.p99 })
  become('live', null)
  if (!live.paused) notify('tick')
}

/** Fills gaps: seconds from before the page opened, and those without a connection. @param {Seconds} from */
function takeSeconds(from) {
  const first = Math.floor(Date.parse(from.from) / 1_000)
  advance(first + from.requests.length - 1)
  from.requests.forEach((requests, at) => {
    if (requests === null) return
    const { refused, gatewayMs, backendMs } = from
    put(first + at, { requests, minute: refused.minute[at], day: refused.day[at] })
    put(first + at, { ban: refused.ban[at], other: refused.other[at] })
    put(first + at, { gatewayP50: gatewayMs.p50[at], gatewayP99: gatewayMs.p99[at] })
    put(first + at, { backendP50: backendMs.p50[at], backendP99: backendMs.p99[at] })
  })
}

export async function refreshOverview() {
  overviewDueMs = Date.now() + OVERVIEW_EVERY_MS
  /** @type {Overview} */
  const overview = await call('/api/overview')
  aheadMs = Date.parse(overview.asOf) - Date.now()
  live.overview = overview
  live.latest ??= overview.latest
  takeSeconds(overview.seconds)
  notify('overview')
}

/** @param {State} state @param {string | null} cause */
function become(state, cause) {
  if (live.state === state && live.cause === cause) return
  live.state = state
  live.cause = cause
  notify('state')
}

/** @param {boolean} paused */
export function pause(paused) {
  live.paused = paused
  notify('state')
  if (paused) return
  notify('tick')
  notify('visible')
}

/** Tries again at once. */
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
      live.nextTryMs = Date.now() + waitMs
      become('stale', fault instanceof Fault ? `${fault.path}: ${fault.message}` : null)
    }
    if (signal.aborted) return
    live.nextTryMs = Date.now() + waitMs
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, waitMs)
      wake = () => (clearTimeout(timer), resolve(undefined))
      signal.addEventListener('abort', wake, { once: true })
    })
  }
}

/** @param {string} event @param {any} data */
function takeEvent(event, data) {
  if (event === 'tick') return takeTick(data)
  overviewDueMs = Math.min(overviewDueMs, Date.now() + 200)
  notify('event', event)
}

function everySecond() {
  const silentMs = Date.now() - lastTickMs
  if (silentMs > SILENT_MS) {
    if (live.state === 'live') live.nextTryMs = Date.now()
    // A connection may be open with nobody at its other end.
    if (Math.min(silentMs, Date.now() - triedMs) > GONE_MS) attempt?.abort()
    become('stale', live.cause)
    advance(Math.floor(now() / 1_000) - 1)
    notify('state')
    if (!live.paused) notify('tick')
    return
  }
  if (Date.now() >= overviewDueMs && live.state === 'live' && !live.paused)
    // A failing stream shows faults anyway.
    refreshOverview().catch(() => {})
}

/** @type {ReturnType<typeof setInterval> | undefined} */
let timer

function follow() {
  clearInterval(timer)
  connection?.abort()
  if (document.visibilityState === 'hidden') return
  lastTickMs = Date.now()
  timer = setInterval(everySecond, 1_000)
  void connect()
  notify('visible')
}

export function start() {
  document.addEventListener('visibilitychange', follow)
  follow()
}
