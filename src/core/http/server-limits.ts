/** What Node's server bounds by itself: sizes and time-outs, as the configuration in force has them. */
import type { Server } from 'node:http'
import type { Config } from '../../config/config.ts'
import { limitHeads } from './node-internals.ts'

/** Beyond headerBytes and urlBytes Node may count line ends and the method; our own check comes first and is exact. */
const PARSER_SLACK_BYTES = 4_096
/** Room for the answer to be written after the last time-out that could have produced it. */
const SOCKET_SLACK_MS = 10_000

type Times = Pick<Config['server']['timeouts'], 'headersMs' | 'requestMs'>

export class ServerLimits {
  readonly #server: Server
  #times: Times
  #settling: NodeJS.Timeout | undefined

  constructor(server: Server, config: Config) {
    this.#server = server
    this.#times = config.server.timeouts
    this.#hold(this.#times)
    this.#useOthers(config)
  }

  /** Sizes are those of new connections. Node holds all requests against one time-out: a shorter one counts once those that began under the longer one are over. */
  use(config: Config): void {
    this.#useOthers(config)
    const { headersMs, requestMs } = config.server.timeouts
    if (headersMs === this.#times.headersMs && requestMs === this.#times.requestMs) return
    this.#times = { headersMs, requestMs }
    const { headersTimeout, requestTimeout } = this.#server
    this.#hold({
      headersMs: Math.max(headersMs, headersTimeout),
      requestMs: Math.max(requestMs, requestTimeout),
    })
    clearTimeout(this.#settling)
    this.#settling = setTimeout(() => this.#hold(this.#times), requestTimeout).unref()
  }

  #hold({ headersMs, requestMs }: Times): void {
    this.#server.headersTimeout = headersMs
    this.#server.requestTimeout = requestMs
  }

  #useOthers(config: Config): void {
    const { limits, timeouts } = config.server
    limitHeads(this.#server, limits.headerBytes + limits.urlBytes + PARSER_SLACK_BYTES)
    this.#server.keepAliveTimeout = timeouts.idleMs
    this.#server.timeout = inactivityMs(config)
  }
}

/** A socket on which nothing moved for this long is destroyed: longer than any wait that is allowed on purpose. */
function inactivityMs({ server, upstream, routes }: Config): number {
  const response = Math.max(
    upstream.timeouts.responseMs,
    ...routes.map((route) => route.responseTimeoutMs ?? 0),
  )
  return (
    Math.max(server.timeouts.requestMs, 2 * upstream.timeouts.connectMs + response) +
    SOCKET_SLACK_MS
  )
}
