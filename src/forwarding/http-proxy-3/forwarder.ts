/** The forwarding engine on http-proxy-3: the same behaviour as the undici engine, on Node's own client and agents. */
import type { ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import {
  mayRepeat,
  neverReached,
  unusableAnswer,
  backendFailureKind,
} from '../../rules/backend-failure.ts'
import { createBackendRotation, type BackendRotation } from '../../backends/balancer.ts'
import { errorText, backendErrorCode, type ForwarderOptions } from '../engine.ts'
import type { ForwardHandle, ForwardJob, ForwardSink, Forwarder } from '../forwarder.ts'
import type { BackendFailure } from '../forwarder.ts'
import {
  createHttpProxyBackend,
  sendThroughHttpProxy,
  type HttpProxyBackend,
  type OutgoingEvents,
} from './http-proxy.ts'
import { RequestBody } from '../request-body.ts'

interface Engine {
  readonly rotation: BackendRotation<HttpProxyBackend>
  readonly connectTimeoutMs: number
  settled(): void
}

/**
 * Requests go to the URLs in turn. close() lets what is under way finish.
 * connections: per URL. A request that finds none free within its response timeout fails as connect_timeout.
 */
export function createHttpProxyForwarder({
  urls,
  connections,
  timeouts: { connectMs, idleMs },
}: ForwarderOptions): Forwarder {
  const backends = urls.map((url) => createHttpProxyBackend(url, { connections, idleMs }))
  let underWay = 0
  let whenIdle: (() => void) | undefined
  const engine: Engine = {
    rotation: createBackendRotation(backends),
    connectTimeoutMs: connectMs,
    settled: () => {
      underWay--
      if (underWay === 0) whenIdle?.()
    },
  }
  return {
    forward: (job, sink) => {
      underWay++
      return new HttpProxyExchange(job, sink, engine)
    },
    close: async () => {
      if (underWay > 0) await new Promise<void>((resolve) => (whenIdle = resolve))
      for (const { agent } of backends) agent?.destroy()
    },
  }
}

class HttpProxyExchange implements ForwardHandle {
  readonly #job: ForwardJob
  readonly #sink: ForwardSink
  readonly #engine: Engine
  #backend: HttpProxyBackend
  #attempt = 0
  #end: (() => void) | undefined
  #request: ClientRequest | undefined
  #socket: Socket | undefined
  #answer: IncomingMessage | undefined
  #body: RequestBody | undefined
  #bytesReadBefore = 0
  #sent = false
  #paused = false
  #settled = false
  #starting = true
  // One clock for all phases: restarted by each sign of progress.
  readonly #clock: NodeJS.Timeout

  constructor(job: ForwardJob, sink: ForwardSink, engine: Engine) {
    this.#job = job
    this.#sink = sink
    this.#engine = engine
    this.#backend = engine.rotation.next()
    this.#clock = setTimeout(() => this.#onTimeout(), job.responseTimeoutMs)
    this.#send()
    this.#starting = false
  }

  abort(): boolean {
    if (!this.#settled) this.#settle({ endsRequest: true })
    return this.#sent || this.#attempt > 0
  }

  resume(): void {
    if (this.#settled || !this.#paused) return
    this.#paused = false
    this.#clock.refresh()
    this.#answer?.resume()
  }

  #send(): void {
    const { method, target, hasBody } = this.#job
    this.#body = hasBody ? new RequestBody(this.#job, { held: true }) : undefined
    this.#body?.once('error', (error) => this.#onError(error))
    this.#body?.on('data', () => this.#clock.refresh())
    this.#end = sendThroughHttpProxy(
      {
        backend: this.#backend,
        method,
        path: target,
        headers: framedHeaders(this.#job, this.#backend),
        connectTimeoutMs: this.#engine.connectTimeoutMs,
        body: this.#body,
      },
      this.#eventsOf(this.#attempt),
    )
  }

  /** What an earlier attempt still has to say is not heard. */
  #eventsOf(attempt: number): OutgoingEvents {
    const isCurrent = (): boolean => attempt === this.#attempt && !this.#settled
    return {
      socket: (request, socket) => {
        if (!isCurrent()) return
        this.#request = request
        this.#socket = socket
        this.#bytesReadBefore = socket.bytesRead
        // Node ends a request that is answered 101 unasked without a word.
        request.once('close', () => {
          if (isCurrent() && !this.#answer) this.#onError(new Error('closed without an answer'))
        })
        const connected = (): void => {
          if (isCurrent()) this.#onConnected()
        }
        if (socket.connecting)
          socket.once(this.#backend.isTls ? 'secureConnect' : 'connect', connected)
        else connected()
      },
      response: (answer) => {
        if (isCurrent()) this.#onResponse(answer)
      },
      error: (error) => {
        // What goes wrong on the connection behind a whole answer takes nothing from it.
        if (isCurrent() && !this.#answer?.complete) this.#onError(error)
      },
    }
  }

  #onConnected(): void {
    this.#sent = true
    this.#clock.refresh()
    this.#body?.release()
  }

  #onResponse(answer: IncomingMessage): void {
    const status = answer.statusCode ?? 0
    const cause = unusableAnswer(status, answer.rawHeaders)
    if (cause !== undefined) return this.#fail({ kind: 'broken', cause })
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
    const kind = backendFailureKind(backendErrorCode(error), this.#sent)
    const { rotation } = this.#engine
    if (neverReached(kind)) rotation.failed(this.#backend)
    const repeats = mayRepeat({
      method: this.#job.method,
      kind,
      sent: this.#sent,
      bodyTouched: this.#body?.touched ?? false,
      reusedConnection: this.#request?.reusedSocket ?? false,
      answerBegun: (this.#socket?.bytesRead ?? 0) > this.#bytesReadBefore,
    })
    // There is no use in connecting to the only backend again at once.
    const hasWhereTo = this.#sent || rotation.size > 1
    if (!repeats || !hasWhereTo || this.#attempt > 0)
      return this.#fail({ kind, cause: errorText(error) })
    this.#attempt++
    this.#end?.()
    this.#body?.destroy()
    this.#sent = false
    this.#socket = undefined
    this.#request = undefined
    this.#backend = rotation.next(this.#backend)
    setImmediate(() => {
      if (!this.#settled) this.#send()
    })
  }

  #onTimeout(): void {
    if (this.#paused || (this.#answer === undefined && this.#body?.waitsForClient))
      return void this.#clock.refresh()
    this.#fail(
      this.#sent
        ? { kind: 'response_timeout', cause: 'no progress within the response timeout' }
        : { kind: 'connect_timeout', cause: 'no connection became free in time' },
    )
  }

  #fail(failure: BackendFailure): void {
    this.#settle({ endsRequest: true })
    if (this.#starting) queueMicrotask(() => this.#sink.fail(failure))
    else this.#sink.fail(failure)
  }

  /** Keeps the connection for the next request, or closes it with the request. */
  #settle({ endsRequest }: { endsRequest: boolean }): void {
    this.#settled = true
    clearTimeout(this.#clock)
    if (endsRequest) this.#end?.()
    this.#body?.destroy()
    this.#engine.settled()
  }
}

const methodsThatExpectContent = new Set(['POST', 'PUT', 'PATCH'])

/** Node frames nothing by itself when given a flat list: a body must never go out without its framing (RFC 9112 section 6). */
function framedHeaders({ method, headers, hasBody }: ForwardJob, backend: HttpProxyBackend) {
  let hasHost = false
  let hasLength = false
  for (let at = 0; at < headers.length; at += 2) {
    const name = (headers[at] ?? '').toLowerCase()
    if (name === 'host') hasHost = true
    else if (name === 'content-length') hasLength = true
  }
  const framed = hasHost ? [...headers] : ['Host', backend.target.host, ...headers]
  if (hasLength) return framed
  if (hasBody) framed.push('Transfer-Encoding', 'chunked')
  else if (methodsThatExpectContent.has(method)) framed.push('Content-Length', '0')
  return framed
}
