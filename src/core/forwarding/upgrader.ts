/** Carries WebSocket upgrades: http-proxy-3 makes the handshake with the backend, then a tunnel joins the two sockets. */
import { hash } from 'node:crypto'
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Backend } from '../backends/backend.ts'
import type { Caller } from '../rules/credentials.ts'
import { handshakeFault, type OwnEnd, type WebSocketOffer } from '../rules/websocket.ts'
import { Attempt } from './attempt.ts'
import {
  withHost,
  type AttemptSink,
  type EngineOptions,
  type ForwardHandle,
  type ForwardJob,
} from './engine.ts'
import { createWebProxy, type OutgoingEvents } from './http-proxy-3/http-proxy.ts'
import { Tunnel, type TunnelClient } from './tunnel.ts'

/** Receives the result of one handshake: head() with the backend's 101, which it passes on to the client, then end() once the tunnel has closed. */
export interface UpgradeSink extends AttemptSink, TunnelClient {
  /** The client's offer, which the backend's 101 must answer. */
  readonly offer: WebSocketOffer
}

export class UpgradeEngine {
  readonly proxy = createWebProxy()
  readonly connectTimeoutMs: number
  readonly #tunnelIdleMs: number
  readonly #tunnels = new Set<Tunnel>()
  #isDraining = false

  /** tunnelIdleMs: longest silence of a tunnel. */
  constructor({ timeouts }: Pick<EngineOptions, 'timeouts'>, tunnelIdleMs: number) {
    this.connectTimeoutMs = timeouts.connectMs
    this.#tunnelIdleMs = tunnelIdleMs
  }

  /** Same as send() of an Engine, for one handshake and its tunnel. */
  send(backend: Backend, job: ForwardJob, sink: UpgradeSink): ForwardHandle {
    return new Handshake(backend, job, sink, this)
  }

  opened(tunnel: Tunnel): void {
    this.#tunnels.add(tunnel)
    void tunnel.closed.then(() => this.#tunnels.delete(tunnel))
    if (this.#isDraining) tunnel.close('drain')
  }

  /** Ends tunnels that were idle for too long or whose caller has lost the right to them. Must be called about twice a second. */
  review(judge: (caller: Caller) => OwnEnd | undefined): void {
    const nowMs = performance.now()
    for (const tunnel of this.#tunnels) tunnel.review(nowMs, this.#tunnelIdleMs, judge)
  }

  /** Sends a close frame on every tunnel, including those opened later. */
  drain(): void {
    this.#isDraining = true
    for (const tunnel of this.#tunnels) tunnel.close('drain')
  }

  close(): void {
    for (const tunnel of this.#tunnels) tunnel.cut()
  }
}

/** Computes Sec-WebSocket-Accept (RFC 6455 4.2.2). */
function acceptOf(key: string): string {
  return hash('sha1', `${key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`, 'base64')
}

class Handshake extends Attempt<UpgradeSink> implements OutgoingEvents {
  readonly #engine: UpgradeEngine
  readonly #clock: NodeJS.Timeout
  readonly #end: () => void
  /** The connection that the backend has switched. */
  #switched: Socket | undefined

  constructor(backend: Backend, job: ForwardJob, sink: UpgradeSink, engine: UpgradeEngine) {
    super(job, sink)
    this.#engine = engine
    this.#clock = setTimeout(() => this.isOverdue(false), job.responseTimeoutMs)
    const { method, target: path } = job
    const { connectTimeoutMs } = engine
    const headers = withHost(job.headers, backend)
    const link = { backend, agent: undefined, connectTimeoutMs }
    this.#end = engine.proxy({ ...link, method, path, headers, body: undefined }, this)
  }

  resume(): void {}

  onSocket(request: ClientRequest, socket: Socket): void {
    socket.once('encrypted' in socket ? 'secureConnect' : 'connect', () => (this.sent = true))
    request.once('upgrade', (answer, switched, head) => {
      this.#switched = switched
      if (head.length > 0) switched.unshift(head)
      if (this.settled) switched.destroy()
      else this.#onSwitched(answer, switched)
    })
  }

  onResponse({ statusCode }: IncomingMessage): void {
    this.fail('broken', `status ${statusCode} instead of 101`)
  }

  onRequestError(error: Error): void {
    this.onError(error)
  }

  #onSwitched({ rawHeaders }: IncomingMessage, switched: Socket): void {
    clearTimeout(this.#clock)
    const { offer } = this.sink
    const fault = handshakeFault(offer, acceptOf(offer.key), rawHeaders)
    if (fault !== undefined) return this.fail('broken', fault)
    this.sink.head(101, rawHeaders)
    if (this.settled) return
    const tunnel = new Tunnel(this.sink, switched)
    this.#engine.opened(tunnel)
    void tunnel.closed.then(() => {
      this.settle({ closes: false })
      this.sink.end()
    })
  }

  protected override connectionFacts() {
    return { reusedConnection: false, answerBegun: this.#switched !== undefined }
  }

  protected override leave(closes: boolean): void {
    clearTimeout(this.#clock)
    if (!closes) return
    this.#end()
    this.#switched?.destroy()
  }
}
