/** A small gateway with two fixed windows that does everything right, but for one planted defect. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { duplexPair, type Duplex } from 'node:stream'
import { sleep } from '../../../src/tools/conformance/machine.ts'

/** What each does wrong, and the check that is to name it. */
export const defects = {
  'charges what it refuses': 'refused-free',
  'resets ten seconds early': 'reset',
  'resets four seconds late': 'reset',
  'lies short with Retry-After': 'retry-after',
  'lies long with Retry-After': 'retry-after',
  'gives a second window at the edge': 'edge',
  'admits one too many': 'exact',
  'admits one too few': 'exact',
  'lies with Remaining': 'remaining',
  'moves its Reset': 'reset-fixed',
  'admits too many at once': 'concurrent',
  'does not charge the day': 'day',
  'lets all keys share a bucket': 'isolation',
  'does not charge HEAD': 'methods',
  'takes Content-Length and Transfer-Encoding together': 'cl-te',
  'refuses without Retry-After': 'on-429',
  'says another Limit': 'limit',
  'ends its RateLimit with a comma': 'fields',
  'says another number in RateLimit': 'agree',
  'tells malformed keys apart': 'same-401',
  'sends no challenge': 'on-401',
  'refuses in plain text': 'error-body',
  'repeats its request ids': 'request-id',
  'writes its deprecation as an HTTP-date': 'lifecycle',
} as const
export type Defect = keyof typeof defects

interface Limits {
  readonly perMinute: number
  readonly perDay: number
}

/** How it is otherwise than others, which no rule of those asked for is broken by. */
export interface Manner {
  readonly latencyMs?: number
  /** Its minute is the last 60 seconds. */
  readonly slides?: boolean
  /** It is a bucket that holds a minute's worth and leaks all the time, as nginx's limit_req with a burst. */
  readonly leaks?: boolean
  /** It sends no field that tells of limits. */
  readonly isSilent?: boolean
  /** How late the end is that X-RateLimit-Reset tells. */
  readonly lateMs?: number
  /** How far its Date is ahead of its minutes. */
  readonly aheadMs?: number
  /** X-RateLimit-Reset is in seconds to go. */
  readonly tellsSeconds?: boolean
}

interface Given extends Manner {
  readonly keys: readonly string[]
  readonly limits: Limits
  readonly time: LeapingTime
  readonly defect?: Defect | undefined
}

interface Count {
  /** Of those admitted, where it slides. */
  times: number[]
  minute: number
  day: number
  /** What `minute` counts. */
  period: number
  /** When `minute` was looked at, where it leaks. */
  lookedMs: number
}

const MINUTE_MS = 60_000
const MOST_IDLE_MS = 2_000
const DAY_MS = 86_400_000
const endOf = (windowMs: number, nowMs: number): number =>
  (Math.floor(nowMs / windowMs) + 1) * windowMs

/** Its connections stay within this process, so that a turn of the event loop shows whether anything is under way. */
export function createBadGateway({
  keys,
  limits: { perMinute, perDay },
  time,
  defect,
  latencyMs = 0,
  slides = false,
  leaks = false,
  isSilent = false,
  lateMs = 0,
  aheadMs = 0,
  tellsSeconds = false,
}: Given) {
  const has = (name: Defect): boolean => defect === name
  const counts = new Map<string, Count>()
  const refused = new Map<string, number>()
  let requests = 0

  function countOf(key: string, nowMs: number): Count {
    const name = has('lets all keys share a bucket') ? '' : key
    const count = counts.get(name) ?? { times: [], minute: 0, day: 0, period: 0, lookedMs: nowMs }
    counts.set(name, count)
    const earlyMs = has('resets ten seconds early') ? 10_000 : 0
    const lateMs = has('resets four seconds late') ? 4_000 : 0
    let period = 2 * Math.floor((nowMs + earlyMs - lateMs) / MINUTE_MS)
    if (has('gives a second window at the edge') && nowMs % MINUTE_MS >= 2_000) period++
    if (leaks) {
      const leaked = ((nowMs - count.lookedMs) * perMinute) / MINUTE_MS
      Object.assign(count, { minute: Math.max(0, count.minute - leaked), lookedMs: nowMs })
    } else if (slides) {
      count.times = count.times.filter((ms) => ms > nowMs - MINUTE_MS)
      count.minute = count.times.length
    } else if (count.period !== period) Object.assign(count, { minute: 0, period })
    return count
  }

  function fields(count: Count, nowMs: number, isRefused: boolean): Record<string, string> {
    const [oldestMs = nowMs] = count.times
    const minuteMs = slides ? oldestMs + MINUTE_MS : endOf(MINUTE_MS, nowMs)
    const dayMs = endOf(DAY_MS, nowMs)
    const resetMs = minuteMs + (has('moves its Reset') ? 1_000 * (requests % 7) : 0)
    const seconds = (ms: number): number => Math.ceil(ms / 1_000)
    const after = (ms: number): number => seconds(ms - nowMs)
    const inDay = Math.max(0, perDay - count.day)
    const left = isRefused ? 0 : Math.max(0, perMinute - count.minute)
    const inMinute = left + (has('lies with Remaining') && !isRefused ? 1 : 0)
    const isDay = inDay <= inMinute
    const limit = perMinute + (has('says another Limit') ? 1 : 0)
    const r = inMinute + (has('says another number in RateLimit') ? 3 : 0)
    const comma = has('ends its RateLimit with a comma') ? ',' : ''
    const waitMs = after(isDay ? dayMs : minuteMs)
    const short = has('lies short with Retry-After') ? Math.floor(waitMs / 2) : 0
    const long = has('lies long with Retry-After') ? 30 : 0
    return {
      'X-RateLimit-Limit': String(isDay ? perDay : limit),
      'X-RateLimit-Remaining': String(isDay ? inDay : inMinute),
      'X-RateLimit-Reset': String(
        lateMs / 1_000 + (tellsSeconds ? after : seconds)(isDay ? dayMs : resetMs),
      ),
      'RateLimit-Policy': `"minute";q=${perMinute};w=60, "day";q=${perDay};w=86400`,
      RateLimit: `"minute";r=${r};t=${after(resetMs)}, "day";r=${inDay};t=${after(dayMs)}${comma}`,
      ...(isRefused &&
        !has('refuses without Retry-After') && { 'Retry-After': String(waitMs - short + long) }),
    }
  }

  function refuse(response: ServerResponse, status: number, code: string): void {
    const isPlain = has('refuses in plain text')
    response.setHeader('Content-Type', isPlain ? 'text/plain' : 'application/json; charset=utf-8')
    response.statusCode = status
    response.end(isPlain ? code : JSON.stringify({ code, status }))
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    requests++
    if (latencyMs > 0) await sleep(time, latencyMs)
    response.setHeader('Date', new Date(time.now() + aheadMs).toUTCString())
    const id = has('repeats its request ids') ? requests % 5 : requests
    response.setHeader('X-Request-Id', `id-${id}`)
    if (request.rawHeaders.filter((name) => name === 'Host').length > 1) {
      response.setHeader('Connection', 'close')
      return refuse(response, 400, 'two_hosts')
    }
    const [, key = ''] = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '') ?? []
    if (!keys.includes(key)) {
      if (!has('sends no challenge')) response.setHeader('WWW-Authenticate', 'Bearer')
      const isMalformed = has('tells malformed keys apart') && key.length < 5
      return refuse(response, 401, isMalformed ? 'malformed' : 'unknown')
    }
    const isDate = has('writes its deprecation as an HTTP-date')
    response.setHeader('Deprecation', isDate ? 'Fri, 05 Dec 2025 00:00:00 GMT' : '@1764892800')
    response.setHeader('Sunset', 'Thu, 05 Dec 2030 00:00:00 GMT')
    response.setHeader('Link', '</v2/pets>; rel="successor-version"')
    const nowMs = time.now()
    const count = countOf(key, nowMs)
    const more = Number(has('admits one too many')) - Number(has('admits one too few'))
    const isAdmitted = count.minute <= perMinute + more - 1 && count.day < perDay
    // Others look at the counter between the look at it and the charge.
    if (has('admits too many at once')) await sleep(time, 10)
    const isFree = has('does not charge HEAD') && request.method === 'HEAD'
    if ((isAdmitted && !isFree) || has('charges what it refuses')) {
      count.minute++
      if (slides) count.times.push(nowMs)
      if (!has('does not charge the day')) count.day++
    }
    const told = isSilent ? {} : fields(count, nowMs, !isAdmitted)
    for (const [name, value] of Object.entries(told)) response.setHeader(name, value)
    if (!isAdmitted) {
      refused.set(key, (refused.get(key) ?? 0) + 1)
      return refuse(response, 429, 'rate_limit_exceeded')
    }
    response.end('[]')
  }

  const answeredMs = new WeakMap<Duplex, number>()
  const server = createServer((request, response) => {
    const { socket } = request
    // As one that has just given up waiting: it closes, and what is on its way is lost (RFC 9112 section 9.3.1).
    const idleMs = time.now() - (answeredMs.get(socket) ?? Infinity)
    if (idleMs > MOST_IDLE_MS) return void socket.destroy()
    response.on('finish', () => answeredMs.set(socket, time.now()))
    return void answer(request, response)
  })

  function open(): Duplex {
    const [near, far] = duplexPair()
    server.emit('connection', far)
    return near
  }

  /** Believes Transfer-Encoding where both are there, and keeps the connection. */
  function openFront(): Duplex {
    const [near, far] = duplexPair()
    const behind = open()
    far.on('data', (bytes: Buffer) => {
      const text = bytes.toString('latin1')
      const both = /\r\nContent-Length: \d+(?=\r\nTransfer-Encoding: chunked\r\n)/
      behind.write(text.replace(both, ''), 'latin1')
    })
    behind.pipe(far)
    behind.on('close', () => far.end())
    far.on('close', () => behind.destroy())
    return near
  }
  const isBehind = has('takes Content-Length and Transfer-Encoding together')
  return {
    connect: () => Promise.resolve(isBehind ? openFront() : open()),
    /** Of the key that was refused most often. */
    mostRefusals: () => Math.max(0, ...refused.values()),
  }
}

/**
 * Time for whatever runs in this process alone, without sockets and files: it stands still while anybody has something to
 * do, and leaps to who waits for the least then. Minutes pass at once, and in the same order on every machine.
 */
export class LeapingTime {
  #nowMs: number
  #waiting: { readonly atMs: number; readonly call: () => void }[] = []
  #isWatched = false

  constructor(startMs: number) {
    this.#nowMs = startMs
  }

  readonly now = (): number => this.#nowMs

  readonly after = (ms: number, call: () => void): (() => void) => {
    const waiter = { atMs: this.#nowMs + ms, call }
    // Behind those of the same moment.
    const at = this.#waiting.findIndex(({ atMs }) => atMs > waiter.atMs)
    this.#waiting.splice(at === -1 ? this.#waiting.length : at, 0, waiter)
    this.#watch()
    return () => void (this.#waiting = this.#waiting.filter((each) => each !== waiter))
  }

  /** Promises and streams go on before the next turn of the event loop; a few of these begin the next one. */
  #watch(): void {
    if (this.#isWatched) return
    this.#isWatched = true
    let turns = 0
    const turn = (): void => {
      if (++turns < 4) return void setImmediate(turn)
      this.#isWatched = false
      const [first] = this.#waiting.splice(0, 1)
      if (first === undefined) return
      this.#nowMs = Math.max(this.#nowMs, first.atMs)
      first.call()
      if (this.#waiting.length > 0) this.#watch()
    }
    setImmediate(turn)
  }
}
