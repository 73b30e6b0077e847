/** The forwarding engine on http-proxy-3: the same behaviour as the undici engine, on Node's own client and agents. */
import { Agent as HttpAgent, type ClientRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Socket } from 'node:net'
import type { Backend } from '../../backends/backend.ts'
import { methodsThatExpectContent } from '../../http1/request-head.ts'
import {
  unusableAnswer,
  backendFailureKind,
  type FailedAttempt,
} from '../../rules/backend-failure.ts'
import { errorText, backendErrorCode, withHost, type EngineOptions } from '../engine.ts'
import type { AttemptSink, Engine, ForwardHandle, ForwardJob } from '../forwarder.ts'
import { createWebProxy, type OutgoingEvents, type SendThroughHttpProxy } from './http-proxy.ts'
import { RequestBody } from '../request-body.ts'

/** What the attempts on one backend share. */
interface Line {
  readonly backend: Backend
  readonly agent: HttpAgent
  readonly connectTimeoutMs: number
  readonly send: SendThroughHttpProxy
}

export function createHttpProxyEngine({
  connections,
  timeouts: { connectMs, idleMs },
}: EngineOptions): Engine {
  const send = createWebProxy()
  const lines = new Map<Backend, Line>()
  const open = (backend: Backend): Line => {
    const Agent = backend.isTls ? HttpsAgent : HttpAgent
    const limits = { maxSockets: connections, maxFreeSockets: connections, timeout: idleMs }
    const agent = new Agent({ keepAlive: true, ...limits })
    const line = { backend, agent, connectTimeoutMs: connectMs, send }
    lines.set(backend, line)
    return line
  }
  return {
    send: (backend, job, sink) =>
      new HttpProxyExchange(job, sink, lines.get(backend) ?? open(backend)),
    close: async () => {
      for (const { agent } of lines.values()) agent.destroy()
    },
  }
}

class HttpProxyExchange implements ForwardHandle {
  readonly #sink: AttemptSink
  readonly #line: Line
  #end: (() => void) | undefined
  #request: ClientRequest | undefined
  #socket: Socket | undefined
  #answer: IncomingMessage | undefined
  readonly #body: RequestBody | undefined
  #bytesReadBefore = 0
  #sent = false
  #paused = false
  #settled = false
  #starting = true
  // One clock for all phases: restarted by each sign of progress.
  readonly #clock: NodeJS.Timeout

  constructor(job: ForwardJob, sink: AttemptSink, line: Line) {
    this.#sink = sink
    this.#line = line
    this.#clock = setTimeout(() => this.#onTimeout(), job.responseTimeoutMs)
    this.#body = job.hasBody ? new RequestBody(job, { held: true }) : undefined
    this.#body?.once('error', (error) => this.#onError(error))
    this.#body?.on('data', () => this.#clock.refresh())
    const { backend, agent, connectTimeoutMs, send } = line
    const { method, target: path } = job
    const headers = framedHeaders(job, backend)
    this.#end = send(
      { backend, agent, method, path, headers, connectTimeoutMs, body: this.#body },
      this.#events(),
    )
    this.#starting = false
  }

  abort(): boolean {
    if (!this.#settled) this.#settle({ endsRequest: true })
    return this.#sent
  }

  resume(): void {
    if (this.#settled || !this.#paused) return
    this.#paused = false
    this.#clock.refresh()
    this.#answer?.resume()
  }

  #events(): OutgoingEvents {
    return {
      socket: (request, socket) => {
        if (this.#settled) return
        this.#request = request
        this.#socket = socket
        this.#bytesReadBefore = socket.bytesRead
        // Node ends a request that is answered 101 unasked without a word.
        request.once('close', () => {
          if (!this.#answer) this.#onError(new Error('closed without an answer'))
        })
        const connected = (): void => this.#onConnected()
        if (socket.connecting)
          socket.once(this.#line.backend.isTls ? 'secureConnect' : 'connect', connected)
        else connected()
      },
      response: (answer) => {
        if (!this.#settled) this.#onResponse(answer)
      },
      error: (error) => {
        // What goes wrong on the connection behind a whole answer takes nothing from it.
        if (!this.#answer?.complete) this.#onError(error)
      },
    }
  }

  #onConnected(): void {
    if (this.#settled) return
    this.#sent = true
    this.#clock.refresh()
    this.#body?.release()
  }

  #onResponse(answer: IncomingMessage): void {
    const status = answer.statusCode ?? 0
    const cause = unusableAnswer(status, answer.rawHeaders)
    if (cause !== undefined) return this.#fail('broken', cause)
    this.#answer = answer
    this.#clock.refresh()
    this.#sink.head(status, answer.rawHeaders)
    answer.on('data', (chunk: Buffer) => {
      if (this.#settled) return
      this.#clock.refresh()
      if (this.#sink.data(chunk)) return
      this.#paused = true
      answer.pause()
    })
    answer.once('end', () => {
      if (this.#settled) return
      if (!answer.complete) return this.#onError(new Error('the answer was cut off'))
      this.#settle({ endsRequest: this.#body !== undefined && !this.#body.readableEnded })
      this.#sink.end()
    })
    answer.once('error', (error) => this.#onError(error))
    answer.once('close', () => this.#onError(new Error('the answer was cut off')))
  }

  #onError(error: Error): void {
    if (this.#settled) return
    this.#fail(backendFailureKind(backendErrorCode(error), this.#sent), errorText(error))
  }

  #onTimeout(): void {
    if (this.#paused || (this.#answer === undefined && this.#body?.waitsForClient))
      return void this.#clock.refresh()
    if (this.#sent) this.#fail('response_timeout', 'no progress within the response timeout')
    else this.#fail('connect_timeout', 'no connection became free in time', 'waiting')
  }

  #fail(
    kind: FailedAttempt['kind'],
    cause: string,
    phase: FailedAttempt['phase'] = this.#sent ? 'sent' : 'connecting',
  ): void {
    const failed: FailedAttempt = {
      kind,
      cause,
      phase,
      bodyTouched: this.#body?.touched ?? false,
      reusedConnection: this.#request?.reusedSocket ?? false,
      answerBegun: (this.#socket?.bytesRead ?? 0) > this.#bytesReadBefore,
    }
    this.#settle({ endsRequest: true })
    if (this.#starting) queueMicrotask(() => this.#sink.fail(failed))
    else this.#sink.fail(failed)
  }

  /** Keeps the connection for the next request, or closes it with the request. */
  #settle({ endsRequest }: { endsRequest: boolean }): void {
    this.#settled = true
    clearTimeout(this.#clock)
    if (endsRequest) this.#end?.()
    this.#body?.destroy()
  }
}

/** Node frames nothing by itself when given a flat list: a body must never go out without its framing (RFC 9112 section 6). */
function framedHeaders({ method, headers, hasBody }: ForwardJob, backend: Backend): string[] {
  const framed = withHost(headers, backend)
  if (headers.some((name, at) => at % 2 === 0 && name.toLowerCase() === 'content-length'))
    return framed
  if (hasBody) framed.push('Transfer-Encoding', 'chunked')
  else if (methodsThatExpectContent.has(method)) framed.push('Content-Length', '0')
  return framed
}
