/** Restricts http-proxy-3 to making the request to the backend: it decides nothing about the request's content. */
import { EventEmitter } from 'node:events'
import type { Agent, ClientRequest, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Stream } from 'node:stream'
import { createProxyServer, type ServerOptions } from 'http-proxy-3'
import type { Backend } from '../../backends/backend.ts'
import { maxAnswerHeadBytes } from '../engine.ts'

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
  readonly body: Stream | undefined
}

export interface OutgoingEvents {
  /** The request has its socket, which may still be connecting. */
  onSocket(request: ClientRequest, socket: Socket): void
  onResponse(response: IncomingMessage): void
  /** The request failed; may be called more than once, also after the response. */
  onRequestError(error: Error): void
}

const passesReplaced = 'deleteLength, timeout, XHeaders, stream'

/**
 * Keeps only the streaming pass of the list, which the types of http-proxy-3 do not show: the others rewrite the framing of DELETE
 * and OPTIONS (a second request at the backend), add to X-Forwarded-For and set time-outs on the client's socket.
 * Throws if the passes are not exactly the expected ones: a needed one could be removed.
 */
export function keepStreamPass(server: { webPasses?: { readonly name: string }[] }): void {
  const passes = server.webPasses ?? []
  const names = passes.map(({ name }) => name).join(', ')
  if (names !== passesReplaced)
    throw new Error(
      `this http-proxy-3 cannot be used: its webPasses are "${names}" instead of "${passesReplaced}"; install the version of package-lock.json`,
    )
  server.webPasses = passes.slice(-1)
}

/** Starts the request and returns a function that ends it at once. Errors are events, never thrown. */
export type SendThroughHttpProxy = (outgoing: Outgoing, events: OutgoingEvents) => () => void

/** Throws if http-proxy-3 is not the expected version. */
export function createWebProxy(): SendThroughHttpProxy {
  const proxy = createProxyServer({ selfHandleResponse: true })
  keepStreamPass(proxy as unknown as Parameters<typeof keepStreamPass>[0])
  proxy.on('error', () => {})
  proxy.on('proxyReq', (outgoing, request) => {
    if (outgoing.socket) standIns(request).events.onSocket(outgoing, outgoing.socket)
  })
  proxy.on('proxyRes', (answer, request) => standIns(request).events.onResponse(answer))
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
      queueMicrotask(() => events.onRequestError(error as Error))
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
  readonly events: OutgoingEvents

  constructor({ method, path }: Outgoing, events: OutgoingEvents) {
    super()
    this.method = method
    this.url = path
    this.events = events
  }
}

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
