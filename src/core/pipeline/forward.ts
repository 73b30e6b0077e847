/** Carries an admitted request to a backend and its answer to the client, streaming both ways. */
import type { ForwardSink } from '../forwarding/forwarder.ts'
import type { OutgoingResponse } from '../http/messages.ts'
import { clientHeaders } from '../rules/client-headers.ts'
import type { BackendFailure } from '../rules/backend-failure.ts'
import { backendHeaders } from '../rules/backend-headers.ts'
import { gatewayHeaders } from './respond.ts'
import { giveUp } from './take-quota.ts'
import {
  backendIdentity,
  noteFailure,
  refuseFailed,
  upgrade,
  type Admitted,
  type ForwardDeps,
} from './upgrade.ts'

export function createForward(deps: ForwardDeps) {
  return function forward(admitted: Admitted): void {
    const { exchange, framing, target } = admitted
    const { request } = exchange
    // The client left, or its body broke off, while the request was being decided.
    if (exchange.isOver) return giveUp(deps, exchange)
    if (framing.websocket && exchange.route?.websocket && request.takeOver !== undefined)
      return void upgrade(deps, admitted, request.takeOver())
    const startedMs = (exchange.backendStartedMs = performance.now())
    const headers = backendHeaders(backendIdentity(admitted, deps.host))
    exchange.forwarding = deps.forwarder.forward(
      {
        clientId: admitted.caller.clientId,
        startedMs,
        method: request.method ?? 'GET',
        target,
        headers: exchange.trace?.along(headers) ?? headers,
        body: exchange.hasBody ? request.body : undefined,
        received: exchange.received,
        bodyLimitBytes: deps.bodyLimitBytes,
        responseTimeoutMs: exchange.route?.responseTimeoutMs ?? deps.responseTimeoutMs,
      },
      new ResponseSink(deps, admitted),
    )
  }
}

/**
 * Bytes of an answer that are held for a slow client before the backend has to wait, so that answers of ordinary size free
 * the connection to the backend. One client holds no more than `concurrent` times this.
 */
const HELD_BYTES = 256 * 1024
/** Approximate cost of each held piece beside its bytes: an answer may come in pieces of one byte. */
const PIECE_BYTES = 512

/** Writes the backend's answer to the client as it comes. It is a class, as one is made per forwarded request and closures cost more. */
class ResponseSink implements ForwardSink {
  readonly #deps: ForwardDeps
  readonly #admitted: Admitted
  /** Header fields that are not sent yet: until then the answer can be replaced. */
  #head: string[] | undefined
  #bodyAllowed = true
  /** Declared length; undefined when it is not known. */
  #bodyBytes: number | undefined
  /** A body that came in one piece; it waits for the end of the answer, to be sent with it. */
  #whole: Buffer | undefined
  #wrote = false
  /** Pieces written since the client last took everything. */
  #heldPieces = 0

  constructor(deps: ForwardDeps, admitted: Admitted) {
    this.#deps = deps
    this.#admitted = admitted
  }

  sentTo(backend: string, after?: BackendFailure): void {
    this.#admitted.exchange.sentTo(backend, after)
  }

  head(status: number, headers: string[]): void {
    const { exchange } = this.#admitted
    const { request, response } = exchange
    const passed = clientHeaders({
      headers,
      gatewayHeaders: gatewayHeaders(exchange),
      status,
      method: request.method ?? 'GET',
      ownsCors: exchange.corsHeaders.length > 0,
    })
    if (passed === undefined) {
      exchange.forwarding?.abort(UNUSABLE)
      return this.fail(UNUSABLE)
    }
    // The rest of a body nobody wants must not be read as the next request.
    if (exchange.hasBody && !request.complete) response.shouldKeepAlive = false
    exchange.status = status
    this.#bodyAllowed = passed.bodyAllowed
    this.#bodyBytes = passed.bodyBytes
    this.#head = passed.headers
    flushSoon(this)
  }

  flush(): void {
    if (this.#wrote || this.#admitted.exchange.response.destroyed) return
    this.#wrote = true
    const response = this.#begin()
    if (this.#whole === undefined) return response.flushHeaders()
    response.write(this.#whole)
    this.#whole = undefined
  }

  #begin(): OutgoingResponse {
    const { response, status } = this.#admitted.exchange
    if (this.#head !== undefined) response.writeHead(status, this.#head)
    this.#head = undefined
    return response
  }

  data(chunk: Buffer): boolean {
    if (!this.#bodyAllowed) return true
    const { exchange } = this.#admitted
    exchange.responseBytes += chunk.length
    if (!this.#wrote && chunk.length === this.#bodyBytes) {
      this.#whole = chunk
      return true
    }
    this.#wrote = true
    const response = this.#begin()
    if (response.write(chunk)) this.#heldPieces = 0
    else if (response.writableLength + ++this.#heldPieces * PIECE_BYTES > HELD_BYTES) {
      // At 'drain' nothing is left here, but the kernel holds enough for a client that reads.
      response.once('drain', () => exchange.forwarding?.resume())
      return false
    }
    return true
  }

  end(): void {
    const { exchange } = this.#admitted
    this.#wrote = true
    exchange.backendEndedMs = performance.now()
    const head = this.#head
    if (head === undefined) exchange.response.end()
    else exchange.response.send(exchange.status, head, this.#whole)
  }

  fail(failure: BackendFailure): void {
    const { exchange } = this.#admitted
    this.#wrote = true
    exchange.backendEndedMs = performance.now()
    if (failure.kind === 'client_gone') return
    noteFailure(this.#deps, exchange, failure)
    // An answer that was cut off must not look complete.
    if (exchange.response.headersSent) {
      exchange.cause = failure.cause
      return void exchange.response.destroy()
    }
    refuseFailed(this.#deps, exchange, failure)
  }
}

const UNUSABLE: BackendFailure = {
  kind: 'broken',
  cause: 'the answer has headers that cannot be passed on',
}

/**
 * Sends the head in this turn of the event loop even if its body takes longer; a body that is there is sent in the same
 * write. One immediate serves all heads of the turn, as each costs as much as a stage.
 */
function flushSoon(sink: ResponseSink): void {
  if (unflushed.push(sink) === 1) setImmediate(flushAll)
}

function flushAll(): void {
  const due = unflushed
  unflushed = []
  for (const sink of due) sink.flush()
}

let unflushed: ResponseSink[] = []
