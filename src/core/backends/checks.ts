/** Health checks send each backend one small GET at a time; any 2xx passes. */
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

/** Longest time that a first check may take. */
const FIRST_CHECK_MS = 1_000
/** The backend must answer the gateway's own request within this time: a readiness request waits for it. */
const OWN_ANSWER_MS = 1_000

/** Checks each backend that nothing is known of yet and notes the checks that pass; later checks judge the others. Never rejects. */
export async function checkNewcomers(
  balancer: Balancer,
  { path, timeoutMs }: HealthOptions,
  host: HostOption,
): Promise<void> {
  const options = { path, timeoutMs: Math.min(timeoutMs, FIRST_CHECK_MS), host }
  const check = async (backend: Backend): Promise<void> => {
    if ((await checkFault(backend, options)) === undefined) balancer.checked(backend, undefined)
  }
  await Promise.all(balancer.backends.filter(({ standing }) => standing.isUnknown).map(check))
}

/** The first check of each backend starts at once. */
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
      const cause = await checkFault(backend, { ...options, host })
      if (!stopping.signal.aborted) balancer.checked(backend, cause)
      await sleep(Math.max(0, nextMs - performance.now()), undefined, pause).catch(() => undefined)
    }
  }
  for (const backend of balancer.backends) void watch(backend)
  return { stop: () => stopping.abort() }
}

/** Explains why the backend did not answer the gateway's own request; undefined: it did. Never rejects. */
export function answerFault(backend: Backend, host: HostOption): Promise<string | undefined> {
  const isAnswer = (status: number): boolean => !isGatewayFault(status)
  // OPTIONS * only tests whether the server answers (RFC 9110 section 9.3.7).
  return ask(backend, { method: 'OPTIONS', path: '*', timeoutMs: OWN_ANSWER_MS, host, isAnswer })
}

/** Explains why the check failed; undefined: it passed. Never rejects. */
async function checkFault(
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
      // Each check uses a new connection and closes it after the answer's head.
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
    // The listener stays: a destroyed connection may emit one more error.
    request.on('error', (error) => settle(connectFault(error)))
    request.end()
  })
}
