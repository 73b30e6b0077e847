/** Carries an admitted request to a backend and its answer to the client, streaming both ways. A WebSocket's handshake (RFC 6455) goes the same way; after its 101 both sides are one tunnel. */
import type { Duplex } from 'node:stream'
import type { Config } from '../../config/config.ts'
import type { Backend } from '../backends/backend.ts'
import { Forwarding, type Forwarder } from '../forwarding/attempts.ts'
import type { AttemptHandle, Engine } from '../forwarding/engine.ts'
import type { UpgradeSink } from '../forwarding/http-proxy-3.ts'
import type { TunnelClient } from '../forwarding/tunnel.ts'
import { TurnStage } from '../http/turn-stages.ts'
import { clientHeaders, type PassableAnswer } from '../rules/client-headers.ts'
import { backendFailureCodes, type BackendFailure } from '../rules/backend-failure.ts'
import { backendHeaders } from '../rules/backend-headers.ts'
import type { Caller } from '../rules/credentials.ts'
import { isRefusal, refuse } from '../rules/refusals.ts'
import { readOffer, type TunnelEnd, type WebSocketOffer } from '../rules/websocket.ts'
import type { Charges, Exchange, PipelineParts } from './exchange.ts'
import { gatewayHeaders, giveUpWith } from './respond.ts'
import { giveUp } from './take-quota.ts'

/** All that carries requests to the backends of one configuration. */
export interface Carrier extends Forwarder {
  readonly upgrades: Pick<Engine<UpgradeSink>, 'send'>
  readonly settings: Pick<Config, 'upstream'>
}

type Parts = Charges & Pick<PipelineParts, 'log' | 'metrics' | 'tunnels'>

/** caller: that of the exchange. */
export function forward(parts: Parts, carrier: Carrier, exchange: Exchange, caller: Caller): void {
  const { request, framing, route, connection } = exchange
  // The client left, or its body broke off, while the request was being decided.
  if (exchange.isOver) return giveUp(parts, exchange)
  const isTunnel = framing.websocket && route?.websocket
  const socket = isTunnel ? connection.protocol?.takeOver?.() : undefined
  if (socket !== undefined) {
    const offer = readOffer(request.rawHeaders)
    if (isRefusal(offer)) return giveUpWith(parts, exchange, offer)
    // The client left during the decision; the end of its stream is not signalled again.
    if (socket.destroyed || socket.readableEnded) return void socket.destroy()
    exchange.forwarding = new Upgraded(parts, carrier, exchange, { socket, offer, caller })
  } else exchange.forwarding = new Forwarded(parts, carrier, exchange, caller)
  exchange.forwarding.begin()
}

/** An admitted request on its way. It is a class, as one is made per forwarded request and closures cost more. */
abstract class Carried extends Forwarding {
  protected readonly parts: Parts
  protected readonly exchange: Exchange

  constructor(parts: Parts, carrier: Carrier, exchange: Exchange, caller: Caller) {
    const startedMs = (exchange.backendStartedMs = performance.now())
    const { request, route, terms } = exchange
    const { host, timeouts } = carrier.settings.upstream
    const headers = backendHeaders(exchange, caller, host)
    const job = {
      clientId: caller.clientId,
      startedMs,
      method: request.method ?? 'GET',
      target: exchange.target,
      headers: exchange.trace?.along(headers) ?? headers,
      body: exchange.hasBody ? request.body : undefined,
      received: exchange.received,
      bodyLimitBytes: terms.server.limits.bodyBytes,
      responseTimeoutMs: route?.responseTimeoutMs ?? timeouts.responseMs,
    }
    super(job, carrier)
    this.parts = parts
    this.exchange = exchange
  }

  protected sentTo(backend: string, after?: BackendFailure): void {
    this.exchange.sentTo(backend, after)
  }

  protected refuse(failure: BackendFailure): void {
    const { parts, exchange } = this
    const { kind, cause } = failure
    const { id, backend, response } = exchange
    exchange.backendEndedMs = performance.now()
    if (kind === 'client_gone') return
    exchange.trace?.failed(failure)
    parts.metrics.backendFailed(kind)
    // A client refused for a full line may come again at once, and the access line says it all.
    if (kind !== 'saturated') parts.log.backendFailed({ id, backend, kind, cause })
    // An answer that was cut off must not look complete.
    if (response.headersSent) {
      exchange.cause = cause
      return void response.destroy()
    }
    const code = backendFailureCodes[kind] ?? 'bad_gateway'
    const retryAfterSeconds = kind === 'saturated' ? 1 : undefined
    giveUpWith(parts, exchange, refuse(code, { cause, retryAfterSeconds }))
  }

  /** Returns the fields for the client; undefined: the answer cannot be passed on, and is given up. */
  protected passable(status: number, headers: string[]): PassableAnswer | undefined {
    const { exchange } = this
    const ownsCors = exchange.corsHeaders.length > 0
    const passed = clientHeaders(status, headers, gatewayHeaders(exchange), ownsCors)
    if (passed !== undefined) return passed
    this.abort(UNUSABLE)
    this.refuse(UNUSABLE)
    return undefined
  }
}

const UNUSABLE: BackendFailure = {
  kind: 'broken',
  cause: 'the answer has headers that cannot be passed on',
}

/** Bytes of an answer that are held for a slow client, so that most free the backend's connection at once; a client has `concurrent` of them. */
const HELD_BYTES = 256 * 1024
/** Approximate cost of each held piece beside its bytes: an answer may come in pieces of one byte. */
const PIECE_BYTES = 512

/** Writes the backend's answer to the client as it comes. */
class Forwarded extends Carried {
  /** Header fields that are not sent yet: until then the answer can be replaced. */
  #head: string[] | undefined
  /** Declared length; undefined when it is not known. */
  #bodyBytes: number | undefined
  /** A body that came in one piece; it waits for the end of the answer, to be sent with it. */
  #whole: Buffer | undefined
  #wrote = false
  /** Pieces written since the client last took everything. */
  #heldPieces = 0

  override head(status: number, headers: string[]): void {
    super.head(status, headers)
    const { exchange } = this
    const { request, response } = exchange
    const passed = this.passable(status, headers)
    if (passed === undefined) return
    // The rest of a body nobody wants must not be read as the next request.
    if (exchange.hasBody && !request.complete) response.shouldKeepAlive = false
    exchange.status = status
    this.#bodyBytes = passed.bodyBytes
    this.#head = passed.headers
    // The head is sent in this turn of the event loop even if its body takes longer; a body that is there is sent in the same write.
    passHeads.add(this)
  }

  flush(): void {
    const { response } = this.exchange
    // A refusal that stands for the answer may wait to be sent.
    if (this.#wrote || response.destroyed || response.headersSent) return
    this.#write(this.#whole)
    this.#whole = undefined
  }

  #write(chunk: Buffer | undefined): boolean {
    const { response, status } = this.exchange
    const head = this.#head
    this.#wrote = true
    this.#head = undefined
    if (head !== undefined) return response.begin(status, head, chunk)
    return chunk === undefined || response.write(chunk)
  }

  data(chunk: Buffer): boolean {
    const { exchange } = this
    exchange.responseBytes += chunk.length
    if (!this.#wrote && chunk.length === this.#bodyBytes) {
      this.#whole = chunk
      return true
    }
    const { response } = exchange
    if (this.#write(chunk)) this.#heldPieces = 0
    else if (response.writableLength + ++this.#heldPieces * PIECE_BYTES > HELD_BYTES) {
      // At 'drain' nothing is left here, but the kernel holds enough for a client that reads.
      response.once('drain', () => this.resume())
      return false
    }
    return true
  }

  override end(): void {
    super.end()
    const { exchange } = this
    this.#wrote = true
    exchange.backendEndedMs = performance.now()
    const head = this.#head
    if (head === undefined) exchange.response.end()
    else exchange.response.send(exchange.status, head, this.#whole)
  }

  protected override refuse(failure: BackendFailure): void {
    this.#wrote = true
    super.refuse(failure)
  }
}

const passHeads = new TurnStage<Forwarded>('pass heads', (sink) => sink.flush())

/** Longest part of what a client sends before it has its answer that is read then. */
const EARLY_BYTES = 64 * 1024

/** Carries a handshake, and is the client's side of its tunnel. Nothing is written through the response once the backend has agreed. */
class Upgraded extends Carried implements UpgradeSink, TunnelClient {
  readonly socket: Duplex
  readonly offer: WebSocketOffer
  readonly caller: Caller
  declare protected readonly forwarder: Carrier
  readonly #early: Buffer[] = []
  #earlyBytes = 0

  constructor(
    parts: Parts,
    carrier: Carrier,
    exchange: Exchange,
    { socket, offer, caller }: Pick<Upgraded, 'socket' | 'offer' | 'caller'>,
  ) {
    super(parts, carrier, exchange, caller)
    // RFC 6455 4.1.
    this.job.headers.push('Connection', 'Upgrade', 'Upgrade', 'websocket')
    this.socket = socket
    this.offer = offer
    this.caller = caller
    // Only reading shows that the client has left.
    socket.on('data', this.#onEarly).once('end', this.#onLeft).resume()
  }

  readonly #onEarly = (chunk: Buffer): void => {
    this.#early.push(chunk)
    this.#earlyBytes += chunk.length
    if (this.#earlyBytes > EARLY_BYTES) this.socket.pause()
  }

  readonly #onLeft = (): void => void this.socket.destroy()

  #stopReading(): void {
    this.socket.off('data', this.#onEarly).off('end', this.#onLeft).pause()
  }

  protected override send(backend: Backend): AttemptHandle {
    return this.forwarder.upgrades.send(backend, this.job, this)
  }

  /** An established tunnel ends with either of its sides. */
  override abort(fault?: BackendFailure): boolean {
    return this.exchange.status === 101 || super.abort(fault)
  }

  override head(status: number, headers: string[]): void {
    const { parts, exchange, socket } = this
    // Like a 204, a 101 has no body and no Content-Length (RFC 9110 8.6).
    const fields = this.passable(204, headers)?.headers
    if (fields === undefined) return
    super.head(status, headers)
    this.#stopReading()
    socket.unshift(Buffer.concat(this.#early))
    // RFC 6455 4.2.2.
    let text = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
    for (let at = 0; at < fields.length; at += 2) text += `${fields[at]}: ${fields[at + 1]}\r\n`
    socket.write(`${text}\r\n`, 'latin1')
    exchange.status = 101
    parts.metrics.tunnelOpened()
  }

  data(): boolean {
    return true
  }

  switched(backend: Duplex): void {
    const { parts, exchange } = this
    const { tunnelIdleMs } = exchange.terms.server.timeouts
    void parts.tunnels.open(this, backend, tunnelIdleMs).then(() => this.end())
  }

  ended(end: TunnelEnd): void {
    this.exchange.tunnelEnd = end
    this.parts.metrics.tunnelEnded(end)
  }

  override end(): void {
    super.end()
    this.exchange.backendEndedMs = performance.now()
    this.parts.metrics.tunnelClosed()
    this.socket.destroy()
  }

  protected override refuse(failure: BackendFailure): void {
    this.#stopReading()
    super.refuse(failure)
  }
}
