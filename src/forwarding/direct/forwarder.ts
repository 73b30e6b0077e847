/** The forwarding engine on a client of our own: HTTP/1.1 and nothing else, at the least cost per request. */
import { createBackendRotation, type BackendRotation } from '../../backends/balancer.ts'
import type { ForwarderOptions } from '../engine.ts'
import type { Forwarder } from '../forwarder.ts'
import { Http1Clock } from './clock.ts'
import { backendAddress } from './connection.ts'
import { Http1Exchange, type Http1Engine } from './exchange.ts'
import { Http1Pool, type PoolOptions } from './pool.ts'

/**
 * Requests go to the URLs in turn. close() lets what is under way finish and takes nothing new.
 * connections: per URL. A request that finds none free within its response timeout fails as connect_timeout.
 */
export function createHttp1Forwarder({ urls, connections, timeouts }: ForwarderOptions): Forwarder {
  const engine = new Engine(urls, { connections, ...timeouts })
  return {
    forward: (job, sink) => new Http1Exchange(job, sink, engine),
    close: () => engine.close(),
  }
}

class Engine implements Http1Engine {
  readonly rotation: BackendRotation<Http1Pool>
  readonly clock: Http1Clock
  closing = false
  readonly #pools: readonly Http1Pool[]
  #underWay = 0
  #whenNoneIs: (() => void) | undefined

  constructor(urls: readonly string[], options: PoolOptions) {
    this.clock = new Http1Clock((nowMs) => {
      for (const pool of this.#pools) pool.tick(nowMs)
      return !this.#pools.every((pool) => pool.isUnused)
    })
    this.#pools = urls.map((url) => new Http1Pool(backendAddress(url), options, this.clock))
    this.rotation = createBackendRotation(this.#pools)
  }

  begun(): void {
    this.#underWay++
  }

  settled(): void {
    this.#underWay--
    if (this.#underWay === 0) this.#whenNoneIs?.()
  }

  async close(): Promise<void> {
    this.closing = true
    if (this.#underWay > 0) await new Promise<void>((resolve) => (this.#whenNoneIs = resolve))
    for (const pool of this.#pools) pool.closeAll()
    this.clock.stop()
  }
}
