/** Restricts http-proxy-3 to making the request to the backend: it decides nothing about the request's content. */
import { EventEmitter } from 'node:events'
import type { Agent, ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex, type Stream } from 'node:stream'
import { createProxyServer, type ServerOptions } from 'http-proxy-3'
import type { Backend } from '../../backends/backend.ts'
import { maxAnswerHeadBytes } from '../engine.ts'

/** Backend, agent and connect timeout of all requests to one backend. */
export interface BackendLink {
  readonly backend: Backend
  /** undefined: each request uses a new connection. */
  readonly agent: Agent | undefined
  readonly connectTimeoutMs: number
}

export interface Outgoing extends BackendLink {
  readonly method: string
  /** Path in origin form, sent byte for byte. */
  readonly path: string
  /** Flat list of all header fields, framing included, sent in this order and spelling. */
  readonly headers: string[]
}

export interface OutgoingEvents {
  /** The request has its socket, which may still be connecting. */
  onSocket(request: ClientRequest, socket: Socket): void
  onResponse(response: IncomingMessage): void
  /** The request failed; may be called more than once, also after the response. */
  onRequestError(error: Error): void
}

/** The passes of http-proxy-3 over a request and over an upgrade, in order; its types do not show these lists. */
const replaced = {
  webPasses: 'deleteLength, timeout, XHeaders, stream',
  wsPasses: 'checkMethodAndHeader, XHeaders, stream',
}
type Passes = Record<keyof typeof replaced, { readonly name: string }[]>

/**
 * Keeps only the streaming pass: the others rewrite the framing of DELETE and OPTIONS (a second request at the
 * backend), add to X-Forwarded-For and set time-outs on the client's socket.
 * Throws if the passes are not exactly the expected ones: a needed one could be removed.
 */
export function keepStreamPass(server: Partial<Passes>): void {
  for (const kind of ['webPasses', 'wsPasses'] as const) {
    const passes = server[kind] ?? []
    const names = passes.map(({ name }) => name).join(', ')
    if (names !== replaced[kind])
      throw new Error(
        `this http-proxy-3 cannot be used: its ${kind} are "${names}" instead of "${replaced[kind]}"; install the version of package-lock.json`,
      )
    server[kind] = passes.slice(-1)
  }
}

/** Creates a proxy that only streams. Throws if http-proxy-3 is not the expected version. */
export function createStreamingProxy(options?: ServerOptions) {
  const proxy = createProxyServer(options)
  keepStreamPass(proxy as unknown as Partial<Passes>)
  proxy.on('error', () => {})
  return proxy
}

/** Starts the request and returns a function that ends it at once. Errors are events, never thrown. */
export type SendThroughHttpProxy = (
  outgoing: Outgoing & { readonly body: Stream | undefined },
  events: OutgoingEvents,
) => () => void

export function createWebProxy(): SendThroughHttpProxy {
  const proxy = createStreamingProxy({ selfHandleResponse: true })
  proxy.on('proxyReq', (outgoing, request) => {
    if (outgoing.socket) standIns(request).events?.onSocket(outgoing, outgoing.socket)
  })
  proxy.on('proxyRes', (answer, request) => standIns(request).events?.onResponse(answer))
  return (outgoing, events) => {
    const standIn = new StandIn(outgoing, events)
    try {
      proxy.web(
        standIn as unknown as IncomingMessage,
        standIn as never,
        { ...optionsFor(outgoing), buffer: outgoing.body ?? noBody },
        (error) => events.onRequestError(error),
      )
    } catch (error) {
      queueMicrotask(() => events.onRequestError(asError(error)))
    }
    return () => void standIn.emit('close')
  }
}

const noBody = { pipe: (request: ClientRequest) => request.end() } as unknown as Stream

/** Replaces the client's request and response: http-proxy-3 sees only what it needs, and can change nothing. */
class StandIn extends EventEmitter {
  readonly method: string
  readonly url: string
  readonly headers = {}
  readonly socket = { destroyed: false }
  readonly writableFinished = false
  readonly events: OutgoingEvents | undefined

  constructor({ method, path }: Outgoing, events?: OutgoingEvents) {
    super()
    this.method = method
    this.url = path
    this.events = events
  }
}

const asError = (error: unknown): Error =>
  error instanceof Error ? error : new Error(String(error))

const standIns = (request: unknown): StandIn => request as StandIn

function optionsFor({ backend, agent, path, headers, connectTimeoutMs }: Outgoing): ServerOptions {
  const { isTls, tls, host, hostHeader, port } = backend
  return {
    target: { protocol: isTls ? 'https:' : 'http:', host: hostHeader, hostname: host, port },
    connectTimeout: connectTimeoutMs,
    ssl: exactOptions(path, headers, tls),
    ...(agent && { agent }),
  }
}

/**
 * http-proxy-3 copies the options of the outgoing request into the `ssl` object. It would re-serialise the path and fold
 * header fields into an object (losing order, duplicates and an empty query); it cannot overwrite these two properties.
 */
function exactOptions(path: string, headers: string[], tls: Backend['tls']): object {
  const fixed = (value: unknown) => ({ get: () => value, set: () => {}, enumerable: true })
  return Object.defineProperties(
    { ...tls, maxHeaderSize: maxAnswerHeadBytes },
    { path: fixed(path), headers: fixed(headers) },
  )
}

export interface UpgradeEvents {
  /** The backend answered 101; later bytes can be read from the socket. */
  upgraded(answer: IncomingMessage, socket: Socket): void
  /** The backend answered something else. */
  refused(answer: IncomingMessage): void
  error(error: Error): void
}

/**
 * Starts a WebSocket handshake and returns a function that ends it at once.
 * http-proxy-3 would write the backend's answer, even a refusal, to the client itself; so it gets a socket that discards
 * all, and is detached from the backend's socket when the tunnel opens.
 */
export function upgradeThroughHttpProxy(outgoing: Outgoing, events: UpgradeEvents): () => void {
  const nowhere = new Nowhere()
  const standIn = new StandIn(outgoing)
  const proxy = createStreamingProxy()
  let request: ClientRequest | undefined
  let answer: IncomingMessage | undefined
  proxy.on('proxyReqWs', (clientRequest) => {
    request = clientRequest
    request.once('upgrade', (response: IncomingMessage) => (answer = response))
    request.once('response', (response) => events.refused(response))
  })
  proxy.on('open', (socket) => {
    socket.unpipe(nowhere)
    nowhere.unpipe(socket)
    if (answer) events.upgraded(answer, socket)
  })
  try {
    proxy.ws(
      standIn as unknown as IncomingMessage,
      nowhere,
      Buffer.alloc(0),
      optionsFor(outgoing),
      (error) => events.error(error),
    )
  } catch (error) {
    events.error(asError(error))
  }
  return () => void request?.destroy()
}

class Nowhere extends Duplex {
  override _read(): void {}
  override _write(_chunk: unknown, _encoding: string, done: () => void): void {
    done()
  }
  setTimeout(): void {}
  setNoDelay(): void {}
  setKeepAlive(): void {}
  destroySoon(): void {}
}
