/** Asks each backend by itself how it is: one small GET at a time, any 2xx is well. */
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../../config/config.ts'
import { isGatewayFault } from '../rules/backend-failure.ts'
import { connectFault } from '../rules/tls-faults.ts'
import type { Backend } from './backend.ts'
import type { Balancer } from './balancer.ts'

type HealthOptions = NonNullable<Config['upstream']['health']>
type HostOption = Config['upstream']['host']

/** Nobody waits longer for a first one. */
const FIRST_CHECK_MS = 1_000
/** Who asks whether the gateway is ready waits for it. */
const OWN_ANSWER_MS = 1_000

/** Of those that nobody knows, the ones that answer well and soon are known when it resolves; the rest is left to the checks that follow. Never rejects. */
export async function checkNewcomers(
  balancer: Balancer,
  { path, timeoutMs }: HealthOptions,
  host: HostOption,
): Promise<void> {
  const options = { path, timeoutMs: Math.min(timeoutMs, FIRST_CHECK_MS), host }
  const check = async (backend: Backend): Promise<void> => {
    if ((await faultOf(backend, options)) === undefined) balancer.checked(backend, undefined)
  }
  await Promise.all(balancer.backends.filter(({ standing }) => standing.isUnknown).map(check))
}

/** Begins at once. */
export function startHealthChecks(
  balancer: Balancer,
  { everyMs, ...options }: HealthOptions,
  host: HostOption,
): { stop(): void } {
  const stopping = new AbortController()
  const pause = { signal: stopping.signal, ref: false }
  const watch = async (backend: Backend): Promise<void> => {
    while (!stopping.signal.aborted) {
      const nextMs = performance.now() + everyMs
      const cause = await faultOf(backend, { ...options, host })
      if (!stopping.signal.aborted) balancer.checked(backend, cause)
      await sleep(Math.max(0, nextMs - performance.now()), undefined, pause).catch(() => undefined)
    }
  }
  for (const backend of balancer.backends) void watch(backend)
  return { stop: () => stopping.abort() }
}

/** Why the backend has no answer to a question of the gateway's own; undefined: it has one. Never rejects. */
export function silenceOf(backend: Backend, host: HostOption): Promise<string | undefined> {
  const isAnswer = (status: number): boolean => !isGatewayFault(status)
  // A ping that does nothing (RFC 9110 section 9.3.7).
  return ask(backend, { method: 'OPTIONS', path: '*', timeoutMs: OWN_ANSWER_MS, host, isAnswer })
}

/** Why the check failed; undefined: it did not. Never rejects. */
async function faultOf(
  backend: Backend,
  { path, timeoutMs, host }: Pick<HealthOptions, 'path' | 'timeoutMs'> & { host: HostOption },
): Promise<string | undefined> {
  const isAnswer = (status: number): boolean => status >= 200 && status < 300
  const fault = await ask(backend, { method: 'GET', path, timeoutMs, host, isAnswer })
  return fault && `health check: ${fault}`
}

interface Question {
  readonly method: string
  readonly path: string
  readonly timeoutMs: number
  readonly host: HostOption
  isAnswer(status: number): boolean
}

function ask(
  backend: Backend,
  { method, path, timeoutMs, host, isAnswer }: Question,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const settle = (fault: string | undefined): void => {
      clearTimeout(clock)
      request.destroy()
      resolve(fault)
    }
    const hostName = typeof host === 'string' ? backend.hostHeader : host.name
    const options = {
      host: backend.host,
      port: backend.port,
      method,
      path,
      // A connection of its own, which ends with the answer's head: nobody reads more of it.
      agent: false,
      headers: { Host: hostName, 'User-Agent': 'tollgate-health', Connection: 'close' },
    } as const
    const request = backend.tls
      ? requestHttps({ ...options, ...backend.tls })
      : requestHttp(options)
    const clock = setTimeout(() => settle(`no answer within ${timeoutMs} ms`), timeoutMs).unref()
    request.once('response', ({ statusCode = 0 }) =>
      settle(isAnswer(statusCode) ? undefined : `status ${statusCode}`),
    )
    // Kept: a connection that is destroyed may complain once more.
    request.on('error', (error) => settle(connectFault(error)))
    request.end()
  })
}
