/** Ends the exchanges of clients that send or read more slowly than server.limits.minimumRate: what they hold is taken from others. */
import { takenBytes } from '../listeners/node-internals.ts'
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

export class SlowClients {
  readonly #parts: PipelineParts
  readonly #rateBytes: number
  /** Of exchanges whose client was found waited for: short ones cost nothing. */
  readonly #sending = new WeakMap<Exchange, Pace>()
  readonly #reading = new WeakMap<Exchange, Pace>()
  readonly #timer: NodeJS.Timeout | undefined
  #lookedMs = performance.now()

  /** rateBytes: a second; 0: nobody is too slow. */
  constructor(parts: PipelineParts, rateBytes: number) {
    this.#parts = parts
    this.#rateBytes = rateBytes
    if (rateBytes > 0) this.#timer = setInterval(() => this.#look(), LOOK_EVERY_MS).unref()
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
      if (isAnswerBlocked(exchange)) {
        if (this.#readsTooSlowly(exchange, waitedMs)) cutOff(exchange)
      } else if (isBodyWanted(exchange)) {
        if (this.#sendsTooSlowly(exchange, waitedMs)) refuseSlow(this.#parts, exchange)
      }
    }
  }

  #readsTooSlowly(exchange: Exchange, waitedMs: number): boolean {
    const { request, response, responseBytes } = exchange
    const bytes = takenBytes(request.socket)
    let pace = this.#reading.get(exchange)
    if (pace === undefined) {
      // Of the answer's body the kernel took this much before.
      const takenBefore = Math.max(0, responseBytes - response.writableLength)
      pace = { bytes: bytes - takenBefore, creditBytes: initialCredit(this.#rateBytes) }
      this.#reading.set(exchange, pace)
    }
    return this.#isTooSlow(pace, bytes, waitedMs)
  }

  #sendsTooSlowly(exchange: Exchange, waitedMs: number): boolean {
    const bytes = exchange.request.socket.bytesRead
    let pace = this.#sending.get(exchange)
    if (pace === undefined) {
      pace = { bytes, creditBytes: initialCredit(this.#rateBytes) }
      this.#sending.set(exchange, pace)
    }
    return this.#isTooSlow(pace, bytes, waitedMs)
  }

  #isTooSlow(pace: Pace, bytes: number, waitedMs: number): boolean {
    const rateBytes = this.#rateBytes
    const movedBytes = bytes - pace.bytes
    pace.bytes = bytes
    pace.creditBytes = creditAfter(pace.creditBytes, { rateBytes, movedBytes, waitedMs })
    return pace.creditBytes < 0
  }
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

function refuseSlow({ connections, lessee }: PipelineParts, exchange: Exchange): void {
  if (exchange.isOver) return
  connections.of(exchange.request.socket).closing = true
  interrupt(lessee, exchange, refuse('request_timeout', { cause: 'sends below the minimum rate' }))
}

/** A cut-off answer does not look complete. */
function cutOff(exchange: Exchange): void {
  exchange.cause ??= 'reads below the minimum rate'
  exchange.response.destroy()
}
