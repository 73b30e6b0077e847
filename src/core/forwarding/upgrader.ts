/** Carries WebSocket upgrades: http-proxy-3 makes the handshake with the backend, then a tunnel joins the two sockets. */
import { hash } from 'node:crypto'
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { handshakeFault, type WebSocketOffer } from '../rules/websocket.ts'
import {
  Engine,
  type AttemptSink,
  type EngineOptions,
  type ForwardJob,
  type SurplusObserver,
} from './engine.ts'
import { ProxiedAttempt } from './http-proxy-3.ts'
import type { ConnectionPool } from './pool.ts'
import { Tunnel, type TunnelClient, type Tunnels } from './tunnel.ts'

/** Receives the result of one handshake: head() with the backend's 101, which it passes on to the client, then end() once the tunnel has closed. */
export interface UpgradeSink extends AttemptSink, TunnelClient {
  /** The client's offer, which the backend's 101 must answer. */
  readonly offer: WebSocketOffer
}

export class UpgradeEngine extends Engine<UpgradeSink> {
  readonly #tunnels: Tunnels
  readonly #tunnelIdleMs: number

  /** tunnelIdleMs: longest silence of a tunnel. */
  constructor(
    options: EngineOptions,
    observer: SurplusObserver,
    tunnels: Tunnels,
    tunnelIdleMs: number,
  ) {
    super(options, observer)
    this.#tunnels = tunnels
    this.#tunnelIdleMs = tunnelIdleMs
  }

  join(sink: UpgradeSink, switched: Socket): Tunnel {
    const tunnel = new Tunnel(sink, switched, this.#tunnelIdleMs)
    this.#tunnels.add(tunnel)
    return tunnel
  }

  protected attempt(job: ForwardJob, sink: UpgradeSink, pool: ConnectionPool): Handshake {
    return new Handshake(job, sink, pool, this)
  }
}

/** Computes Sec-WebSocket-Accept (RFC 6455 4.2.2). */
function acceptOf(key: string): string {
  return hash('sha1', `${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`, 'base64')
}

class Handshake extends ProxiedAttempt<UpgradeSink> {
  readonly #engine: UpgradeEngine

  constructor(job: ForwardJob, sink: UpgradeSink, pool: ConnectionPool, engine: UpgradeEngine) {
    super(job, sink, pool)
    this.#engine = engine
  }

  override onRequest(request: ClientRequest): void {
    super.onRequest(request)
    request.once('upgrade', (answer, _socket, head) => this.#onSwitched(answer, head))
  }

  onResponse({ statusCode }: IncomingMessage): void {
    this.fail('broken', `status ${statusCode} instead of 101`)
  }

  #onSwitched({ rawHeaders }: IncomingMessage, head: Buffer): void {
    const { offer } = this.sink
    const fault = handshakeFault(offer, acceptOf(offer.key), rawHeaders)
    if (fault !== undefined) return this.fail('broken', fault)
    this.sink.head(101, rawHeaders)
    const { connection } = this
    if (this.settled || connection === undefined) return
    this.connection = undefined
    const switched = connection.detach()
    if (head.length > 0) switched.unshift(head)
    void this.#engine.join(this.sink, switched).closed.then(() => this.onAnswerEnd())
  }
}
