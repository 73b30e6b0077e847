/** Ends the exchanges of clients that send or read more slowly than server.limits.minimumRate: what they hold is taken from others. */
import { takenBytes } from '../http/node-internals.ts'
import { creditAfter, initialCredit } from '../rules/minimum-rate.ts'
import { refuse } from '../rules/refusals.ts'
import type { Exchange, PipelineParts } from './exchange.ts'
import { interrupt } from './refuse-unparsed.ts'

const LOOK_EVERY_MS = 1_000
/** Of a turn of the event loop that took longer no more is counted: what came meanwhile may not have been read. */
const MOST_PER_LOOK_MS = 2 * LOOK_EVERY_MS

/** How a client fares at sending or reading, in one exchange. */
interface Pace {
  /** Moved on the connection by the last look. */
  bytes: number
  creditBytes: number
}

type Paces = WeakMap<Exchange, Pace>

export class SlowClients {
  readonly #parts: PipelineParts
  /** Of exchanges whose client was found waited for: short ones cost nothing. */
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
    // A copy, since what is ended leaves the list.
    for (const exchange of this.#parts.connections.inFlight.slice()) {
      const { request, response, responseBytes } = exchange
      const rateBytes = exchange.terms.minimumRateBytes
      if (isLate(exchange, nowMs)) refuseSlow(this.#parts, exchange, 'ERR_HTTP_REQUEST_TIMEOUT')
      else if (rateBytes === 0) continue
      else if (isAnswerBlocked(exchange)) {
        const bytes = takenBytes(request.socket)
        // Of the answer's body the kernel has taken this much.
        const before = Math.max(0, responseBytes - response.writableLength)
        const pace = paceOf(this.#reading, exchange, bytes - before, rateBytes)
        if (isTooSlow(pace, { bytes, rateBytes, waitedMs })) cutOff(this.#parts, exchange)
      } else if (isBodyWanted(exchange)) {
        const bytes = request.socket.bytesRead
        const pace = paceOf(this.#sending, exchange, bytes, rateBytes)
        if (isTooSlow(pace, { bytes, rateBytes, waitedMs }))
          refuseSlow(this.#parts, exchange, 'sends below the minimum rate')
      }
    }
  }
}

/** Of HTTP/1.1 Node's server sees to it. */
function isLate({ request, hasBody, startedMs, terms }: Exchange, nowMs: number): boolean {
  if (request.httpVersion !== '2.0' || !hasBody || request.complete) return false
  return nowMs - startedMs > terms.requestMs
}

function isTooSlow(
  pace: Pace,
  { bytes, ...look }: { bytes: number; rateBytes: number; waitedMs: number },
): boolean {
  const movedBytes = bytes - pace.bytes
  pace.bytes = bytes
  pace.creditBytes = creditAfter(pace.creditBytes, { ...look, movedBytes })
  return pace.creditBytes < 0
}

function paceOf(paces: Paces, exchange: Exchange, bytes: number, rateBytes: number): Pace {
  let pace = paces.get(exchange)
  if (pace === undefined)
    paces.set(exchange, (pace = { bytes, creditBytes: initialCredit(rateBytes) }))
  return pace
}

/** The client is to read on. Answers behind the first of a connection wait for that, and a tunnel for nobody. */
function isAnswerBlocked({ response, status }: Exchange): boolean {
  return status !== 101 && response.socket !== null && response.writableLength > 0
}

/** The client is to send on: nothing holds it back, and it was told to continue where it asked. */
function isBodyWanted({ request, response, hasBody, expectsContinue }: Exchange): boolean {
  if (!hasBody || request.complete || request.readableFlowing !== true) return false
  return !expectsContinue || response.socket !== null
}

function refuseSlow(parts: PipelineParts, exchange: Exchange, cause: string): void {
  if (exchange.isOver) return
  parts.connections.of(exchange.request.socket).closing = true
  interrupt(parts, exchange, refuse('request_timeout', { cause }))
}

/** A cut-off answer does not look complete. */
function cutOff({ metrics }: PipelineParts, exchange: Exchange): void {
  if (exchange.request.httpVersion === '2.0') metrics.http2Abuse('stalled')
  exchange.cause ??= 'reads below the minimum rate'
  exchange.response.destroy()
}
