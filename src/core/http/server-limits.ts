/** Applies the configuration's sizes and time-outs to Node's server. */
import type { Server } from 'node:http'
import type { Config } from '../../config/config.ts'
import { limitHeads } from './node-internals.ts'

/** Extra bytes for line ends and the method, which Node also counts; the gateway's own check comes first and is exact. */
const PARSER_SLACK_BYTES = 4_096
/** Time to write the answer after the last time-out that can produce one. */
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

  /** Applies another configuration: sizes to new connections. Node has one time-out for all requests, so a shorter one applies after the longer one has passed. */
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

/** Node destroys a socket that is inactive for this long, which exceeds any allowed wait. */
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
