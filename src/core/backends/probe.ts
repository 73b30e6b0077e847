/** Asks the backends whether they take connections, for readiness; at most once a second. What it finds of that counts as what requests find does. */
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Config } from '../../config/config.ts'
import { connectFault } from '../rules/tls-faults.ts'
import type { Backend } from './backend.ts'
import type { Balancer } from './balancer.ts'
import { silenceOf } from './checks.ts'
import { healthOf, worstOf, type BackendHealth } from './health.ts'

const REMEMBERED_MS = 1_000

/**
 * Resolves with how the backends are, at most a second old; never rejects. seen: how each process that sends requests sees
 * them, where those are other processes; a process may leave out backends that are well.
 */
export type BackendProbe = (
  seen?: readonly (readonly BackendHealth[])[],
) => Promise<readonly BackendHealth[]>

type ProbeOptions = Pick<Config['upstream'], 'health' | 'host' | 'timeouts'>

/**
 * A backend is of use that takes connections and, where it fails requests, answers a question of the gateway's own: what one
 * client asks for must not take the gateway from all others. Where `health` checks the backends, the checks decide alone.
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
    return (await silenceOf(backend, host)) === undefined
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

/** Why it takes no connection; undefined: it does. */
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
