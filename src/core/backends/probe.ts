/** Readiness probes test at most once a second whether backends accept connections. The result counts as a request's does. */
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Config } from '../../config/config.ts'
import { connectFault } from '../rules/tls-faults.ts'
import type { Backend } from './backend.ts'
import type { Balancer } from './balancer.ts'
import { answerFault } from './checks.ts'
import { healthOf, worstOf, type BackendHealth } from './health.ts'

const REMEMBERED_MS = 1_000

/**
 * Resolves with the health of the backends, at most a second old; never rejects. seen: the reports of other processes that
 * send requests; a report may omit healthy backends.
 */
export type BackendProbe = (
  seen?: readonly (readonly BackendHealth[])[],
) => Promise<readonly BackendHealth[]>

type ProbeOptions = Pick<Config['upstream'], 'health' | 'host' | 'timeouts'>

/**
 * A backend is usable if it accepts connections and, where it fails requests, answers the gateway's own request: one client's
 * failing requests must not make the gateway unready for all. Where `health` is configured, only its checks decide.
 */
export function createBackendProbe(
  balancer: Balancer,
  { health, host, timeouts }: ProbeOptions,
): BackendProbe {
  const { backends } = balancer
  const own = (): BackendHealth[] => backends.map(healthOf)
  const isUsable = async (backend: Backend, failsElsewhere: boolean): Promise<boolean> => {
    const beganMs = performance.now()
    const cause = await connectionFault(backend, timeouts.connectMs)
    if (cause !== undefined) {
      balancer.unreachable(backend, cause)
      return backend.standing.answeredMs > beganMs
    }
    balancer.connected(backend)
    if (!failsElsewhere && healthOf(backend).state === 'up') return true
    return (await answerFault(backend, host)) === undefined
  }
  const lookAtAll = async (seen: readonly BackendHealth[]) => {
    const failing = new Set(seen.filter(({ state }) => state !== 'up').map(({ name }) => name))
    const looks = backends.map(
      async (one) => [one.name, await isUsable(one, failing.has(one.name))] as const,
    )
    return new Map(await Promise.all(looks))
  }
  let last: { readonly atMs: number; readonly usable: ReturnType<typeof lookAtAll> } | undefined
  return async function backendProbe(seen = []) {
    if (health !== undefined) return seen.flat().length > 0 ? worstOf(seen) : own()
    const nowMs = performance.now()
    if (last === undefined || nowMs - last.atMs > REMEMBERED_MS)
      last = { atMs: nowMs, usable: lookAtAll(seen.flat()) }
    const usable = await last.usable
    return worstOf([own(), ...seen]).map((one) => ({
      ...one,
      isUsable: usable.get(one.name) ?? one.isUsable,
    }))
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
      socket.destroy()
      resolve(fault)
    }
    socket.setTimeout(timeoutMs, () => settle(`no connection within ${timeoutMs} ms`))
    socket.once(tls ? 'secureConnect' : 'connect', () => settle(undefined))
    socket.on('error', (error) => settle(connectFault(error)))
  })
}
