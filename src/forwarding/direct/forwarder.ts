/** The forwarding engine on a client of our own: HTTP/1.1 and nothing else, at the least cost per request. */
import type { Backend } from '../../backends/backend.ts'
import type { EngineOptions } from '../engine.ts'
import type { Engine } from '../forwarder.ts'
import { Http1Clock } from './clock.ts'
import { Http1Exchange } from './exchange.ts'
import { Http1Pool } from './pool.ts'

export function createDirectEngine({ connections, timeouts }: EngineOptions): Engine {
  const pools = new Map<Backend, Http1Pool>()
  const clock = new Http1Clock((nowMs) => {
    let isUsed = false
    for (const pool of pools.values()) {
      pool.tick(nowMs)
      isUsed ||= !pool.isUnused
    }
    return isUsed
  })
  const open = (backend: Backend): Http1Pool => {
    const pool = new Http1Pool(backend, { connections, ...timeouts }, clock)
    pools.set(backend, pool)
    return pool
  }
  return {
    send: (backend, job, sink) => new Http1Exchange(job, sink, pools.get(backend) ?? open(backend)),
    close: async () => {
      for (const pool of pools.values()) pool.closeAll()
      clock.stop()
    },
  }
}
