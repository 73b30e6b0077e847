/** The time and the connections of the machine that runs the suite, which tests replace; and what the time at the gateway may be. */
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { connect as connectTls } from 'node:tls'
import type { Answer } from './connection.ts'
import { header } from './standing.ts'

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

/** Margin for a gateway that reads its clock once for several answers. */
const MARGIN_MS = 50

/** Bounds the time at the gateway by the Date of its answers (RFC 9110 section 6.6.1). */
export class GatewayClock {
  /** Bounds, in ms, of how far the gateway's clock is ahead of this machine's. */
  #least: number | undefined
  #most: number | undefined
  readonly #machine: Machine

  constructor(machine: Machine) {
    this.#machine = machine
  }

  note(answer: Answer): void {
    const dateMs = Date.parse(header(answer, 'date') ?? '')
    if (Number.isNaN(dateMs)) return
    this.#least = Math.max(this.#least ?? -Infinity, dateMs - answer.receivedMs)
    this.#most = Math.min(this.#most ?? Infinity, dateMs + 1_000 - answer.sentMs)
  }

  /** The earliest Unix time in ms that the gateway's clock may show. */
  earliest(atMs = this.#machine.now()): number {
    return atMs + (this.#least ?? 0)
  }

  /** The latest Unix time in ms that the gateway's clock may show. */
  latest(atMs = this.#machine.now()): number {
    return atMs + Math.max(this.#most ?? 0, this.#least ?? 0)
  }

  /** Resolves once the gateway's clock has certainly reached this time. */
  async passed(gatewayMs: number): Promise<void> {
    for (let left = 1; left > 0; left = gatewayMs + MARGIN_MS - this.earliest())
      await sleep(this.#machine, left)
  }

  /** Resolves shortly before the gateway's clock can reach this time; at once if it may have. */
  async before(gatewayMs: number): Promise<void> {
    await sleep(this.#machine, gatewayMs - this.latest())
  }
}
