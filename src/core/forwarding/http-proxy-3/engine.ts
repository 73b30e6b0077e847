/** The http-proxy-3 engine behaves like the direct one, with Node's own client and agents. */
import { Agent as HttpAgent, type ClientRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Socket } from 'node:net'
import type { Backend } from '../../backends/backend.ts'
import { restBetweenRequests, wasAnsweredTwice } from '../../http/node-internals.ts'
import { methodsThatExpectContent } from '../../http/request-head.ts'
import { ambiguousFields, moreMayCome, unusableAnswer } from '../../rules/backend-failure.ts'
import { Attempt } from '../attempt.ts'
import { ConnectionLife, Rests } from '../connection-life.ts'
import { backendErrorCode, withHost } from '../engine.ts'
import type { AttemptSink, Engine, EngineOptions, ForwardJob } from '../engine.ts'
import {
  createWebProxy,
  type BackendLink,
  type OutgoingEvents,
  type SendThroughHttpProxy,
} from './http-proxy.ts'
import { RequestBody } from '../request-body.ts'

interface AgentLink extends BackendLink {
  readonly rests: Rests
  lifeOf(socket: Socket): ConnectionLife
}

export function createHttpProxyEngine(options: EngineOptions): Engine {
  const send = createWebProxy()
  const links = new Map<Backend, AgentLink>()
  return {
    send: (backend, job, sink) => {
      let link = links.get(backend)
      if (link === undefined) links.set(backend, (link = openLink(backend, options)))
      return new HttpProxyExchange(job, sink, link, send)
    },
    close: () => {
      for (const { agent } of links.values()) agent?.destroy()
    },
  }
}

function openLink(backend: Backend, options: EngineOptions): AgentLink {
  const { connections, timeouts } = options
  const Agent = backend.isTls ? HttpsAgent : HttpAgent
  const limits = { maxSockets: connections, maxFreeSockets: connections }
  const agent = new Agent({ keepAlive: true, timeout: timeouts.idleMs, ...limits })
  const rests = new Rests(backend, options)
  const lives = new WeakMap<Socket, ConnectionLife>()
  const lifeOf = (socket: Socket): ConnectionLife => {
    const life = lives.get(socket) ?? new ConnectionLife(rests)
    lives.set(socket, life)
    return life
  }
  restBetweenRequests(agent, {
    restMs: (socket) => lifeOf(socket).end(),
    mayGoOn: (socket) => lifeOf(socket).rested(),
    onSurplus: () => rests.surplus(),
  })
  return { backend, agent, connectTimeoutMs: timeouts.connectMs, rests, lifeOf }
}

class HttpProxyExchange extends Attempt implements OutgoingEvents {
  readonly #link: AgentLink
  #life: ConnectionLife | undefined
  #end: (() => void) | undefined
  #request: ClientRequest | undefined
  #socket: Socket | undefined
  #answer: IncomingMessage | undefined
  #bytesReadBefore = 0
  #paused = false
  // One timer serves all phases; any progress restarts it.
  readonly #clock: NodeJS.Timeout

  constructor(job: ForwardJob, sink: AttemptSink, link: AgentLink, send: SendThroughHttpProxy) {
    super(job, sink)
    this.#link = link
    this.#clock = setTimeout(() => this.#onTimeout(), job.responseTimeoutMs)
    this.body = job.body && new RequestBody(job.body, job, true)
    this.body?.once('error', (error) => this.onError(error))
    this.body?.on('data', () => this.#clock.refresh())
    const { method, target: path } = job
    const headers = framedHeaders(job, link.backend)
    this.#end = send({ ...link, method, path, headers, body: this.body }, this)
  }

  resume(): void {
    if (this.settled || !this.#paused) return
    this.#paused = false
    this.#clock.refresh()
    this.#answer?.resume()
  }

  onSocket(request: ClientRequest, socket: Socket): void {
    if (this.settled) return
    this.#request = request
    this.#socket = socket
    this.#bytesReadBefore = socket.bytesRead
    // Node closes a request that gets an unexpected 101 without any other event.
    request.once('close', () => {
      if (!this.#answer) this.onError(new Error('closed without an answer'))
    })
    const connected = (): void => this.#onConnected()
    if (socket.connecting)
      socket.once(this.#link.backend.isTls ? 'secureConnect' : 'connect', connected)
    else connected()
  }

  onRequestError(error: Error): void {
    if (!this.#answer?.complete) return this.onError(error)
    // Bytes after a complete answer do not affect it.
    if (backendErrorCode(error).startsWith('HPE_')) this.#link.rests.surplus()
  }

  #onConnected(): void {
    if (this.settled) return
    this.sent = true
    if (this.#socket) this.#life = this.#link.lifeOf(this.#socket)
    this.#life?.start()
    this.#clock.refresh()
    this.body?.release()
  }

  onResponse(answer: IncomingMessage): void {
    if (this.settled) return
    this.#life?.answer()
    const status = answer.statusCode ?? 0
    const { rawHeaders } = answer
    const cause = unusableAnswer(status, rawHeaders) ?? ambiguousFields(rawHeaders)
    if (cause !== undefined) return this.fail('broken', cause)
    if (this.#life && moreMayCome(this.job.method, status, rawHeaders)) this.#life.isLast = true
    this.#answer = answer
    this.#clock.refresh()
    this.sink.head(status, rawHeaders)
    answer.on('data', (chunk: Buffer) => {
      if (this.settled) return
      this.#clock.refresh()
      if (this.sink.data(chunk)) return
      this.#paused = true
      answer.pause()
    })
    answer.once('end', () => {
      if (this.settled) return
      if (this.#request && wasAnsweredTwice(this.#request)) this.#link.rests.surplus()
      if (!answer.complete) return this.onError(new Error('the answer was cut off'))
      this.settle({ closes: this.body !== undefined && !this.body.readableEnded })
      this.sink.end()
    })
    answer.once('error', (error) => this.onError(error))
    answer.once('close', () => this.onError(new Error('the answer was cut off')))
  }

  #onTimeout(): void {
    if (this.#paused || !this.isOverdue(this.#answer !== undefined)) this.#clock.refresh()
  }

  protected override connectionFacts() {
    return {
      reusedConnection: this.#request?.reusedSocket ?? false,
      answerBegun: (this.#socket?.bytesRead ?? 0) > this.#bytesReadBefore,
    }
  }

  protected override leave(closes: boolean): void {
    clearTimeout(this.#clock)
    if (closes) this.#end?.()
  }
}

/** Adds the framing field, which Node omits when given a flat list: a body must never go out without it (RFC 9112 section 6). */
function framedHeaders({ method, headers, body }: ForwardJob, backend: Backend): string[] {
  const framed = withHost(headers, backend)
  if (headers.some((name, at) => at % 2 === 0 && name.toLowerCase() === 'content-length'))
    return framed
  if (body !== undefined) framed.push('Transfer-Encoding', 'chunked')
  else if (methodsThatExpectContent.has(method)) framed.push('Content-Length', '0')
  return framed
}
