/** Ends the exchanges of clients that send or read more slowly than server.limits.minimumRate, as they hold what others need. */
import { refuse } from '../rules/refusals.ts'
import type { Exchange, PipelineParts } from './exchange.ts'
import { interrupt } from './respond.ts'

const LOOK_EVERY_MS = 1_000
/** Longest wait that one look counts: what came during a longer turn of the event loop may not have been read. */
const MOST_PER_LOOK_MS = 2 * LOOK_EVERY_MS

/** A client's progress at sending or reading in one exchange. */
interface Pace {
  /** Bytes moved on the connection by the time of the last look. */
  bytes: number
  creditBytes: number
}

type Paces = WeakMap<Exchange, Pace>

export class SlowClients {
  readonly #parts: PipelineParts
  /** Only exchanges found waiting for their client have an entry, so short ones cost nothing. */
  readonly #sending: Paces = new WeakMap()
  readonly #reading: Paces = new WeakMap()
  readonly #timer: NodeJS.Timeout
  #lookedMs = performance.now()

  constructor(parts: PipelineParts) {
    this.#parts = parts
    this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #look(): void {
    const nowMs = performance.now()
    const waitedMs = Math.min(nowMs - this.#lookedMs, MOST_PER_LOOK_MS)
    this.#lookedMs = nowMs
    // This is a copy, since ended exchanges leave the list.
    for (const exchange of this.#parts.connections.inFlight.slice()) {
      const { request, response, responseBytes } = exchange
      const rateBytes = exchange.terms.server.limits.minimumRateBytes
      if (isLate(exchange, nowMs))
        refuseSlow(this.#parts, exchange, 'the body did not arrive in time')
      else if (rateBytes === 0) continue
      else if (isAnswerBlocked(exchange)) {
        const bytes = response.takenBytes
        // The kernel has taken this much of the answer's body.
        const before = Math.max(0, responseBytes - response.writableLength)
        const pace = paceOf(this.#reading, exchange, bytes - before, rateBytes)
        if (isTooSlow(pace, bytes, rateBytes, waitedMs)) cutOff(this.#parts, exchange)
      } else if (isBodyWanted(exchange)) {
        const bytes = request.receivedBytes
        const pace = paceOf(this.#sending, exchange, bytes, rateBytes)
        if (isTooSlow(pace, bytes, rateBytes, waitedMs))
          refuseSlow(this.#parts, exchange, 'sends below the minimum rate')
      }
    }
  }
}

/** Whether the body takes too long to arrive. */
function isLate({ request, hasBody, startedMs, terms }: Exchange, nowMs: number): boolean {
  return hasBody && !request.complete && nowMs - startedMs > terms.server.timeouts.requestMs
}

function isTooSlow(pace: Pace, bytes: number, rateBytes: number, waitedMs: number): boolean {
  pace.creditBytes = creditAfter(pace.creditBytes, rateBytes, bytes - pace.bytes, waitedMs)
  pace.bytes = bytes
  return pace.creditBytes < 0
}

function paceOf(paces: Paces, exchange: Exchange, bytes: number, rateBytes: number): Pace {
  let pace = paces.get(exchange)
  if (pace === undefined)
    paces.set(exchange, (pace = { bytes, creditBytes: initialCredit(rateBytes) }))
  return pace
}

/** Whether the client has to read on; tunnels do not count. */
function isAnswerBlocked({ response, status }: Exchange): boolean {
  return status !== 101 && response.writableLength > 0
}

/** Whether the client has to send on: nothing holds it back. */
function isBodyWanted({ request, hasBody }: Exchange): boolean {
  return hasBody && !request.complete && request.body?.readableFlowing === true
}

function refuseSlow(parts: PipelineParts, exchange: Exchange, cause: string): void {
  if (exchange.isOver) return
  exchange.response.shouldKeepAlive = false
  interrupt(parts, exchange, refuse('request_timeout', { cause }))
}

/** Destroys the response, so that the answer does not look complete. */
function cutOff({ metrics }: PipelineParts, exchange: Exchange): void {
  if (exchange.request.httpVersion === '2.0') metrics.http2Abuse('stalled')
  exchange.cause ??= 'reads below the minimum rate'
  exchange.response.destroy()
}

/** How long a client may move nothing at first. */
const GRACE_SECONDS = 5
/**
 * Largest credit. The kernel moves bytes in large steps, so a client that is fast enough may show nothing for many seconds. A
 * client that has stopped is noticed after this much divided by the rate: 32 s at 512 bytes a second.
 */
const MOST_BYTES = 16 * 1024

/** rateBytes: bytes a second. */
export const initialCredit = (rateBytes: number): number => GRACE_SECONDS * rateBytes

/** The next credit; below zero the client is too slow. waitedMs: how long the gateway waited for the client while movedBytes moved. */
export function creditAfter(
  creditBytes: number,
  rateBytes: number,
  movedBytes: number,
  waitedMs: number,
): number {
  const mostBytes = Math.max(MOST_BYTES, initialCredit(rateBytes))
  return Math.min(mostBytes, creditBytes + movedBytes) - (rateBytes * waitedMs) / 1000
}
