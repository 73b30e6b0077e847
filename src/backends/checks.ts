/** Asks each backend by itself how it is: one small GET at a time, any 2xx is well. */
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config/config.ts'
import { connectFault } from '../rules/tls-faults.ts'
import type { Backend } from './backend.ts'
import type { Balancer } from './balancer.ts'

type HealthOptions = NonNullable<Config['upstream']['health']>

/** Begins at once; host: the Host that all are asked under, undefined: their own. */
export function startHealthChecks(
  balancer: Balancer,
  { everyMs, ...options }: HealthOptions,
  host: string | undefined,
): { stop(): void } {
  const stopping = new AbortController()
  const pause = { signal: stopping.signal, ref: false }
  const watch = async (backend: Backend): Promise<void> => {
    while (!stopping.signal.aborted) {
      const nextMs = performance.now() + everyMs
      const cause = await faultOf(backend, { ...options, host: host ?? backend.hostHeader })
      if (!stopping.signal.aborted) balancer.checked(backend, cause)
      await sleep(Math.max(0, nextMs - performance.now()), undefined, pause).catch(() => undefined)
    }
  }
  for (const backend of balancer.backends) void watch(backend)
  return { stop: () => stopping.abort() }
}

/** Why the check failed; undefined: it did not. Never rejects. */
function faultOf(
  backend: Backend,
  { path, timeoutMs, host }: Pick<HealthOptions, 'path' | 'timeoutMs'> & { host: string },
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const settle = (fault: string | undefined): void => {
      clearTimeout(clock)
      request.destroy()
      resolve(fault && `health check: ${fault}`)
    }
    const options = {
      host: backend.host,
      port: backend.port,
      path,
      // A connection of its own, which ends with the answer's head: nobody reads more of it.
      agent: false,
      headers: { Host: host, 'User-Agent': 'tollgate-health', Connection: 'close' },
    } as const
    const request = backend.tls
      ? requestHttps({ ...options, ...backend.tls })
      : requestHttp(options)
    const clock = setTimeout(() => settle(`no answer within ${timeoutMs} ms`), timeoutMs).unref()
    request.once('response', ({ statusCode = 0 }) =>
      settle(statusCode >= 200 && statusCode < 300 ? undefined : `status ${statusCode}`),
    )
    // Kept: a connection that is destroyed may complain once more.
    request.on('error', (error) => settle(connectFault(error)))
    request.end()
  })
}
