/** The direct engine forwards with its own HTTP/1.1 client, at the least cost per request. */
import type { Backend } from '../../backends/backend.ts'
import type { Engine, EngineOptions } from '../engine.ts'
import { CoarseClock } from '../../backends/coarse-clock.ts'
import { Http1Exchange } from './exchange.ts'
import { Http1Pool } from './pool.ts'

export function createDirectEngine(options: EngineOptions): Engine {
  const pools = new Map<Backend, Http1Pool>()
  const clock = new CoarseClock((nowMs) =>
    Array.from(pools.values(), (pool) => pool.tick(nowMs)).includes(true),
  )
  return {
    send: (backend, job, sink) => {
      let pool = pools.get(backend)
      if (pool === undefined) pools.set(backend, (pool = new Http1Pool(backend, options, clock)))
      return new Http1Exchange(job, sink, pool)
    },
    close: async () => {
      for (const pool of pools.values()) pool.closeAll()
      clock.stop()
    },
  }
}
