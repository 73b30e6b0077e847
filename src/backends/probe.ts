/** Asks the backends whether they take connections, for readiness; at most once a second. */
import { connect } from 'node:net'
import type { Backend } from './backend.ts'

const REMEMBERED_MS = 1_000

/** Resolves when what the backends' state says is at most a second old; never rejects. */
export type BackendProbe = () => Promise<readonly Backend[]>

export function createBackendProbe(
  backends: readonly Backend[],
  connectTimeoutMs: number,
): BackendProbe {
  let last: { readonly atMs: number; readonly answers: Promise<unknown> } | undefined
  return async function backendProbe() {
    const nowMs = performance.now()
    if (last === undefined || nowMs - last.atMs > REMEMBERED_MS) {
      const answers = Promise.all(backends.map((backend) => reach(backend, connectTimeoutMs)))
      last = { atMs: nowMs, answers }
    }
    await last.answers
    return backends
  }
}

function reach(backend: Backend, timeoutMs: number): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect({ host: backend.host, port: backend.port })
    const settle = (fault: string | undefined): void => {
      socket.destroy()
      backend.fault = fault
      resolve()
    }
    socket.setTimeout(timeoutMs, () => settle(`no connection within ${timeoutMs} ms`))
    socket.once('connect', () => settle(undefined))
    socket.once('error', (error: NodeJS.ErrnoException) => settle(error.code ?? error.message))
  })
}
