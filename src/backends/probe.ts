/** Tells whether at least one backend takes connections, for readiness; asks at most once a second. */
import { connect } from 'node:net'

const REMEMBERED_MS = 1_000

/** Resolves to undefined when a backend is reachable, else to the reason; never rejects. */
export type BackendProbe = () => Promise<string | undefined>

export function createBackendProbe(
  urls: readonly string[],
  connectTimeoutMs: number,
): BackendProbe {
  let last: { readonly atMs: number; readonly answer: Promise<string | undefined> } | undefined
  return function backendProbe() {
    const nowMs = performance.now()
    if (last === undefined || nowMs - last.atMs > REMEMBERED_MS) {
      last = { atMs: nowMs, answer: anyReachable(urls, connectTimeoutMs) }
    }
    return last.answer
  }
}

async function anyReachable(
  urls: readonly string[],
  timeoutMs: number,
): Promise<string | undefined> {
  const answers = await Promise.all(urls.map((url) => reach(url, timeoutMs)))
  return answers.includes(undefined) ? undefined : answers.join('; ')
}

function reach(url: string, timeoutMs: number): Promise<string | undefined> {
  const { hostname, port, protocol } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port) || (protocol === 'https:' ? 443 : 80) })
    const settle = (answer: string | undefined): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.setTimeout(timeoutMs, () => settle(`${url}: no connection within ${timeoutMs} ms`))
    socket.once('connect', () => settle(undefined))
    socket.once('error', (error: NodeJS.ErrnoException) =>
      settle(`${url}: ${error.code ?? error.message}`),
    )
  })
}
