/** The gateway asks its backends itself: whether they are healthy, where `health` is configured, else for readiness whether they accept connections. */
import { request as requestHttp } from 'node:http'
import { request as requestHttps } from 'node:https'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import type { Config } from '../../config/config.ts'
import { isGatewayFault } from '../rules/backend-failure.ts'
import { connectFault } from '../rules/tls-faults.ts'
import { afterTurn } from '../../state/timers.ts'
import { healthOf, worstOf, type Backend, type BackendHealth } from './backend.ts'
import type { Balancer } from './balancer.ts'

const FIRST_CHECK_MS = 1_000
/** The backend must answer the gateway's own request within this time: a readiness request waits for it. */
const OWN_ANSWER_MS = 1_000
const REMEMBERED_MS = 1_000

/**
 * Resolves with the health of the backends, at most a second old; never rejects. seen: the reports of other processes that
 * send requests; a report may omit healthy backends.
 */
export type BackendProbe = (
  seen?: readonly (readonly BackendHealth[])[],
) => Promise<readonly BackendHealth[]>

type Options = Pick<Config['upstream'], 'eject' | 'health' | 'host' | 'timeouts'>
type HealthOptions = NonNullable<Options['health']>

export class BackendChecks {
  readonly #balancer: Balancer
  readonly #options: Options
  readonly #stopping = new AbortController()
  /** The last look for readiness: which backends are usable, by name. */
  #last: { readonly atMs: number; readonly usable: Promise<Map<string, boolean>> } | undefined

  constructor(balancer: Balancer, options: Options) {
    this.#balancer = balancer
    this.#options = options
  }

  /** Checks each backend that nothing is known of yet and notes the checks that pass; later checks judge the others. Never rejects. */
  async newcomers(): Promise<void> {
    const { health } = this.#options
    if (health === undefined) return
    const timeoutMs = Math.min(health.timeoutMs, FIRST_CHECK_MS)
    const check = async (backend: Backend): Promise<void> => {
      const fault = await this.#checkFault(backend, { ...health, timeoutMs })
      if (fault === undefined) this.#balancer.checked(backend, undefined)
    }
    const { backends } = this.#balancer
    await Promise.all(backends.filter(({ standing }) => standing.isUnknown).map(check))
  }

  /** Applies the settings, and starts the health checks: the first one of each backend at once. */
  start(): void {
    const { eject, health } = this.#options
    const nowMs = performance.now()
    for (const backend of this.#balancer.backends) {
      backend.standing.use(eject, health, nowMs)
      if (health !== undefined) void this.#watch(backend, health)
    }
  }

  stop(): void {
    // The default reason, an error, keeps what is on its stack: the configuration that follows.
    this.#stopping.abort('stopped')
  }

  /**
   * A backend is usable if it accepts connections and, where it fails requests, answers the gateway's own request: one client's
   * failing requests must not make the gateway unready for all. Where `health` is configured, only its checks decide.
   */
  readonly probe: BackendProbe = async (seen = []) => {
    const own = (): BackendHealth[] => this.#balancer.backends.map(healthOf)
    if (this.#options.health !== undefined) return seen.flat().length > 0 ? worstOf(seen) : own()
    const nowMs = performance.now()
    if (this.#last === undefined || nowMs - this.#last.atMs > REMEMBERED_MS)
      this.#last = { atMs: nowMs, usable: this.#lookAtAll(seen.flat()) }
    const usable = await this.#last.usable
    return worstOf([own(), ...seen]).map((one) => ({
      ...one,
      isUsable: usable.get(one.name) ?? one.isUsable,
    }))
  }

  async #watch(backend: Backend, health: HealthOptions): Promise<void> {
    const { signal } = this.#stopping
    while (!signal.aborted) {
      const nextMs = performance.now() + health.everyMs
      const cause = await this.#checkFault(backend, health)
      if (!signal.aborted) this.#balancer.checked(backend, cause)
      const pauseMs = Math.max(0, nextMs - performance.now())
      await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => undefined)
    }
  }

  async #lookAtAll(seen: readonly BackendHealth[]): Promise<Map<string, boolean>> {
    const failing = new Set(seen.filter(({ state }) => state !== 'up').map(({ name }) => name))
    const looks = this.#balancer.backends.map(
      async (one) => [one.name, await this.#isUsable(one, failing.has(one.name))] as const,
    )
    return new Map(await Promise.all(looks))
  }

  async #isUsable(backend: Backend, failsElsewhere: boolean): Promise<boolean> {
    const beganMs = performance.now()
    const cause = await connectionFault(backend, this.#options.timeouts.connectMs)
    if (cause !== undefined) {
      this.#balancer.unreachable(backend, cause)
      return backend.standing.answeredMs > beganMs
    }
    this.#balancer.connected(backend)
    if (!failsElsewhere && healthOf(backend).state === 'up') return true
    // OPTIONS * only tests whether the server answers (RFC 9110 section 9.3.7).
    const question = { method: 'OPTIONS', path: '*', timeoutMs: OWN_ANSWER_MS }
    return (await this.#ask(backend, question, (status) => !isGatewayFault(status))) === undefined
  }

  /** Explains why the check failed; undefined: it passed, with any 2xx. Never rejects. */
  async #checkFault(backend: Backend, health: HealthOptions): Promise<string | undefined> {
    const { path, timeoutMs } = health
    const question = { method: 'GET', path, timeoutMs }
    const fault = await this.#ask(backend, question, (status) => status >= 200 && status < 300)
    return fault && `health check: ${fault}`
  }

  #ask(
    backend: Backend,
    { timeoutMs, ...line }: Pick<HealthOptions, 'path' | 'timeoutMs'> & { method: string },
    isAnswer: (status: number) => boolean,
  ): Promise<string | undefined> {
    const { host } = this.#options
    return new Promise((resolve) => {
      const settle = (fault: string | undefined): void => {
        clearTimeout(clock)
        request.destroy()
        resolve(fault)
      }
      const hostName = typeof host === 'string' ? backend.hostHeader : host.name
      const options = {
        ...line,
        host: backend.host,
        port: backend.port,
        // Each check uses a new connection and closes it after the answer's head.
        agent: false,
        headers: { Host: hostName, 'User-Agent': 'tollgate-health', Connection: 'close' },
      } as const
      const request = backend.tls
        ? requestHttps({ ...options, ...backend.tls })
        : requestHttp(options)
      const clock = afterTurn(timeoutMs, () => settle(`no answer within ${timeoutMs} ms`)).unref()
      request.once('response', ({ statusCode = 0 }) =>
        settle(isAnswer(statusCode) ? undefined : `status ${statusCode}`),
      )
      // The listener stays: a destroyed connection may emit one more error.
      request.on('error', (error) => settle(connectFault(error)))
      request.end()
    })
  }
}

/** Explains why the backend accepts no connection; undefined: it does. */
export function connectionFault(
  { host, port, tls }: Pick<Backend, 'host' | 'port' | 'tls'>,
  timeoutMs: number,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = tls ? connectTls({ host, port, ...tls }) : connect({ host, port })
    const settle = (fault: string | undefined): void => {
      clearTimeout(clock)
      socket.destroy()
      resolve(fault)
    }
    const clock = afterTurn(timeoutMs, () => settle(`no connection within ${timeoutMs} ms`))
    socket.once(tls ? 'secureConnect' : 'connect', () => settle(undefined))
    socket.on('error', (error) => settle(connectFault(error)))
  })
}
