/**
 * The http-proxy-3 engine behaves like the direct one, with Node's own HTTP client. It restricts http-proxy-3 to making the request,
 * whose content it decides nothing about. Handshakes of WebSockets are made with it too.
 */
import { hash } from 'node:crypto'
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Duplex, Stream } from 'node:stream'
import { createProxyServer } from 'http-proxy-3'
import type { Backend } from '../backends/backend.ts'
import { keepAliveHint } from '../http/answer-reader.ts'
import { agentOf, wasAnsweredTwice } from '../http/node-internals.ts'
import { methodsThatExpectContent } from '../http/request-head.ts'
import { ambiguousFields, moreMayCome } from '../rules/backend-failure.ts'
import { fieldOf } from '../rules/field-names.ts'
import { handshakeFault, type WebSocketOffer } from '../rules/websocket.ts'
import { Attempt, errorCode } from './attempt.ts'
import { Connection } from './connection.ts'
import { maxAnswerHeadBytes, type AttemptSink, type ForwardJob } from './engine.ts'
import { RequestBody, type BodyError } from './request-body.ts'

/** The agent of each request has its connection already, so no target is connected to. */
const proxy = createProxyServer({ selfHandleResponse: true, target: { host: 'unused', port: 80 } })

/** Leaves the answers of its connection to Node's client, which reads the socket as well. */
class ProxiedConnection extends Connection<ProxiedAttempt> {
  keepAliveSeconds: number | undefined
  readonly agent = agentOf(this.socket, (request) => this.user?.onRequest(request))

  /** Once an answer has begun, Node's client reports the end of the connection itself. */
  override lose(error: Error): void {
    if (this.user?.answer === undefined) super.lose(error)
    else this.close()
  }

  protected onBytes(): void {
    if (this.user?.isComplete) this.closeForSurplus()
  }
}

abstract class ProxiedAttempt<Sink extends AttemptSink = AttemptSink> extends Attempt<Sink> {
  declare protected connection: ProxiedConnection | undefined
  protected request: ClientRequest | undefined
  answer: IncomingMessage | undefined

  abstract onResponse(answer: IncomingMessage): void

  connect(): ProxiedConnection {
    return new ProxiedConnection(this.pool)
  }

  /** The answer has come completely, though it may not be passed on yet. */
  get isComplete(): boolean {
    return this.answer?.complete === true
  }

  /** The request is made; Node's client writes it. */
  onRequest(request: ClientRequest): void {
    this.sent = true
    this.request = request.once('response', (answer) => this.onResponse(answer))
  }

  protected send({ agent }: ProxiedConnection): void {
    const { method, target } = this.job
    // http-proxy-3 sees neither the client's request nor its response, and can change nothing of them.
    const client = { method, url: '/', headers: {}, socket: { destroyed: false }, on: () => {} }
    const ssl = exactOptions(target, framedHeaders(this.job, this.pool.backend))
    const onError = (error: Error): void => this.#onRequestError(error)
    try {
      proxy.web(client as never, client as never, { agent, ssl, buffer: this.#body() }, onError)
    } catch (error) {
      onError(error as Error)
    }
  }

  #body(): Stream {
    const { body: client, received } = this.job
    if (client === undefined || received?.isWhole === true)
      return { pipe: (request: ClientRequest) => request.end(received?.bytes) } as unknown as Stream
    this.body = new RequestBody(client, this.job)
    this.body.once('error', ({ kind, message }: BodyError) => this.fail(kind, message))
    return this.body.on('data', () => this.progress())
  }

  /** The request failed; may be called more than once, also after the answer. */
  #onRequestError(error: Error): void {
    if (!this.isComplete) return this.onError(error)
    // Bytes after a complete answer do not affect it.
    if (errorCode(error).startsWith('HPE_')) this.pool.rests.surplus()
  }
}

export class ForwardedRequest extends ProxiedAttempt {
  onResponse(answer: IncomingMessage): void {
    if (this.settled) return
    const { statusCode = 0, rawHeaders } = answer
    const cause = ambiguousFields(rawHeaders)
    if (cause !== undefined) return this.fail('broken', cause)
    this.answer = answer
    this.onHead(statusCode, rawHeaders)
    answer.on('data', (chunk: Buffer) => {
      if (!this.settled) this.onPiece(chunk)
    })
    answer.once('end', () => this.#onEnd(answer))
    answer.once('error', (error) => this.onError(error))
    answer.once('close', () => this.onError(new Error('the answer was cut off')))
  }

  #onEnd(answer: IncomingMessage): void {
    const { connection, request } = this
    if (connection === undefined || request === undefined) return
    if (!answer.complete) return this.onError(new Error('the answer was cut off'))
    const { statusCode = 0, rawHeaders } = answer
    if (!connection.closed && wasAnsweredTwice(request)) this.pool.rests.surplus()
    connection.keepAliveSeconds = keepAliveHint(rawHeaders)
    connection.release(
      connection.socket.destroyed ||
        !request.shouldKeepAlive ||
        !request.writableFinished ||
        moreMayCome(this.job.method, statusCode, rawHeaders),
    )
    this.onAnswerEnd()
  }
}

/** Receives the result of one handshake: either fail(), or head() with the backend's 101 and then switched(). */
export interface UpgradeSink extends AttemptSink {
  /** The client's offer, which the backend's 101 must answer. */
  readonly offer: WebSocketOffer
  /** Takes the bare connection to the backend. */
  switched(backend: Duplex): void
}

export class Handshake extends ProxiedAttempt<UpgradeSink> {
  override onRequest(request: ClientRequest): void {
    super.onRequest(request)
    request.once('upgrade', (answer, _socket, head) => this.#onSwitched(answer, head))
  }

  onResponse({ statusCode }: IncomingMessage): void {
    this.fail('broken', `status ${statusCode} instead of 101`)
  }

  #onSwitched({ rawHeaders }: IncomingMessage, head: Buffer): void {
    const { offer } = this.sink
    // RFC 6455 4.2.2.
    const accept = hash('sha1', `${offer.key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`, 'base64')
    const fault = handshakeFault(offer, accept, rawHeaders)
    if (fault !== undefined) return this.fail('broken', fault)
    this.sink.head(101, rawHeaders)
    const { connection } = this
    if (this.settled || connection === undefined) return
    this.connection = undefined
    this.settle()
    const backend = connection.detach()
    if (head.length > 0) backend.unshift(head)
    this.sink.switched(backend)
  }
}

/**
 * http-proxy-3 copies the options of the outgoing request into the `ssl` object. It would re-serialise the path, fold header fields
 * into an object (losing order, duplicates and an empty query) and change the framing of DELETE and OPTIONS; it cannot overwrite
 * these two properties.
 */
function exactOptions(path: string, headers: string[]): object {
  const fixed = (value: unknown) => ({ get: () => value, set: () => {}, enumerable: true })
  return Object.defineProperties(
    { maxHeaderSize: maxAnswerHeadBytes },
    { path: fixed(path), headers: fixed(headers) },
  )
}

/** Adds Host where there is none, and the framing field, which Node omits when given a flat list: a body must never go out without it (RFC 9112 section 6). */
function framedHeaders({ method, headers, body }: ForwardJob, { hostHeader }: Backend): string[] {
  const hasHost = fieldOf(headers, 'host') !== undefined
  const framed = hasHost ? [...headers] : ['Host', hostHeader, ...headers]
  if (fieldOf(headers, 'content-length') !== undefined) return framed
  if (body !== undefined) framed.push('Transfer-Encoding', 'chunked')
  else if (methodsThatExpectContent.has(method)) framed.push('Content-Length', '0')
  return framed
}
