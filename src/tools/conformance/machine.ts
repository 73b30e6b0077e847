/** The time and the connections of the machine that runs the suite; tests replace them. */
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'

export interface Machine {
  /** Unix time in ms that never goes back. */
  now(): number
  /** Calls after this time; the result cancels the call. */
  after(ms: number, call: () => void): () => void
  /** Resolves with an open connection, over TLS if the URL says https; rejects after `timeoutMs` at the latest. */
  connect(url: URL, timeoutMs: number): Promise<Duplex>
}

export const thisMachine: Machine = {
  now: () => performance.timeOrigin + performance.now(),
  after(ms, call) {
    const timer = setTimeout(call, ms)
    return () => clearTimeout(timer)
  },
  async connect({ protocol, hostname, port }, timeoutMs) {
    const host = hostname.replace(/^\[|\]$/g, '')
    const isTls = protocol === 'https:'
    const at = { host, port: Number(port || (isTls ? 443 : 80)), noDelay: true }
    const socket = isTls
      ? connectTls({
          ...at,
          ALPNProtocols: ['http/1.1'],
          ...(/[^\d.:]/.test(host) && { servername: host }),
        })
      : connect(at)
    try {
      const signal = AbortSignal.timeout(timeoutMs)
      await once(socket, isTls ? 'secureConnect' : 'connect', { signal })
      return socket
    } catch (error) {
      socket.on('error', () => undefined).destroy()
      throw error
    }
  },
}

export const sleep = ({ after }: Pick<Machine, 'after'>, ms: number): Promise<void> =>
  new Promise((resolve) => void after(Math.max(0, ms), resolve))
