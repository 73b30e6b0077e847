/** Ends the exchanges of clients that send or read more slowly than server.limits.minimumRate, as they hold what others need. */
import { looks } from '../http/turn-stages.ts'
import { refuse } from '../rules/refusals.ts'
import type { Exchange, PipelineParts } from './exchange.ts'
import { giveUpWith } from './respond.ts'

const LOOK_EVERY_MS = 1_000
/** Longest wait that one look counts: what came during a longer turn of the event loop may not have been read. */
const MOST_PER_LOOK_MS = 2 * LOOK_EVERY_MS

/** How long a client may move nothing at first. */
const GRACE_SECONDS = 5
/** Largest credit, as the kernel moves bytes in large steps. A client that has stopped is noticed after 32 s at 512 bytes a second. */
const MOST_BYTES = 16 * 1024

export class SlowClients {
  readonly #parts: PipelineParts
  /** Paces of requests and responses, kept from the first look at which the gateway waits for the client: short ones cost nothing. */
  readonly #paces = new WeakMap<object, Pace>()
  readonly #timer: NodeJS.Timeout
  #lookedMs = performance.now()

  constructor(parts: PipelineParts) {
    this.#parts = parts
    this.#timer = setInterval(() => looks.add(() => this.#look()), LOOK_EVERY_MS).unref()
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
      const { limits, timeouts } = exchange.terms.server
      const rateBytes = limits.minimumRateBytes
      const isBodyDue = exchange.hasBody && !request.complete
      // What came while the process stood still is read before a look.
      if (isBodyDue && nowMs - exchange.startedMs > timeouts.requestMs)
        refuseSlow(this.#parts, exchange, 'the body did not arrive in time')
      else if (rateBytes === 0) continue
      // The client has to read on; tunnels do not count.
      else if (exchange.status !== 101 && response.writableLength > 0) {
        // The kernel has taken this much of the answer's body.
        const taken = Math.max(0, responseBytes - response.writableLength)
        const pace = this.#paceOf(response, response.takenBytes - taken, rateBytes)
        if (pace.isTooSlow(response.takenBytes, rateBytes, waitedMs)) cutOff(this.#parts, exchange)
      } else if (isBodyDue && request.body?.readableFlowing === true) {
        // The client has to send on, as nothing holds it back.
        const pace = this.#paceOf(request, request.receivedBytes, rateBytes)
        if (pace.isTooSlow(request.receivedBytes, rateBytes, waitedMs))
          refuseSlow(this.#parts, exchange, 'sends below the minimum rate')
      }
    }
  }

  #paceOf(message: object, bytes: number, rateBytes: number): Pace {
    const pace = this.#paces.get(message) ?? new Pace(bytes, rateBytes)
    this.#paces.set(message, pace)
    return pace
  }
}

function refuseSlow(parts: PipelineParts, exchange: Exchange, cause: string): void {
  if (exchange.isOver) return
  exchange.response.shouldKeepAlive = false
  giveUpWith(parts, exchange, refuse('request_timeout', { cause }))
}

/** Destroys the response, so that the answer does not look complete. */
function cutOff({ metrics }: PipelineParts, exchange: Exchange): void {
  if (exchange.request.httpVersion === '2.0') metrics.http2Abuse('stalled')
  exchange.cause ??= 'reads below the minimum rate'
  exchange.response.destroy()
}

/** A client's progress at sending or reading in one exchange. */
export class Pace {
  #bytes: number
  #creditBytes: number

  /** bytes: moved on the connection before. rateBytes: the least in a second. */
  constructor(bytes: number, rateBytes: number) {
    this.#bytes = bytes
    this.#creditBytes = GRACE_SECONDS * rateBytes
  }

  /** bytes: moved by now. waitedMs: how long the gateway has waited for the client since the last call. */
  isTooSlow(bytes: number, rateBytes: number, waitedMs: number): boolean {
    const mostBytes = Math.max(MOST_BYTES, GRACE_SECONDS * rateBytes)
    const earnedBytes = Math.min(mostBytes, this.#creditBytes + bytes - this.#bytes)
    this.#creditBytes = earnedBytes - (rateBytes * waitedMs) / 1000
    this.#bytes = bytes
    return this.#creditBytes < 0
  }
}
