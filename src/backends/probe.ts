/** Asks the backends whether they take connections, for readiness; at most once a second. What it finds counts as what requests find does. */
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Config } from '../config/config.ts'
import { connectFault } from '../rules/tls-faults.ts'
import type { Backend } from './backend.ts'
import type { Balancer } from './balancer.ts'
import { healthOf, type BackendHealth } from './health.ts'

const REMEMBERED_MS = 1_000

/** Resolves with what is at most a second old; never rejects. */
export type BackendProbe = () => Promise<readonly BackendHealth[]>

/** Where the backends are asked for their health anyway it connects to none. */
export function createBackendProbe(
  balancer: Balancer,
  { health, timeouts }: Pick<Config['upstream'], 'health' | 'timeouts'>,
): BackendProbe {
  const { backends } = balancer
  if (health !== undefined) return async () => backends.map(healthOf)
  const reach = async (backend: Backend): Promise<void> => {
    const cause = await connectionFault(backend, timeouts.connectMs)
    if (cause === undefined) balancer.connected(backend)
    else balancer.failed(backend, { cause, kind: 'unreachable' })
  }
  let last: { readonly atMs: number; readonly answers: Promise<unknown> } | undefined
  return async function backendProbe() {
    const nowMs = performance.now()
    if (last === undefined || nowMs - last.atMs > REMEMBERED_MS)
      last = { atMs: nowMs, answers: Promise.all(backends.map(reach)) }
    await last.answers
    return backends.map(healthOf)
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
