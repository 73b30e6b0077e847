/** http-proxy-3 held at arm's length: it makes the request to the backend, and decides nothing about what is in it. */
import { EventEmitter } from 'node:events'
import { Agent as HttpAgent, type ClientRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent } from 'node:https'
import type { Socket } from 'node:net'
import { Duplex, type Stream } from 'node:stream'
import { createProxyServer, type ServerOptions } from 'http-proxy-3'
import { maxAnswerHeadBytes } from '../engine.ts'

export interface HttpProxyBackend {
  readonly isTls: boolean
  readonly target: { protocol: string; host: string; hostname: string; port: number }
  /** undefined: a connection of its own for each request. */
  readonly agent: HttpAgent | undefined
}

export interface Outgoing {
  readonly backend: HttpProxyBackend
  readonly method: string
  /** Origin form, sent byte for byte. */
  readonly path: string
  /** All header fields, framing included, flat; sent in this order and spelling. */
  readonly headers: string[]
  readonly connectTimeoutMs: number
}

export interface OutgoingEvents {
  /** The request has its socket, which may still be connecting. */
  socket(request: ClientRequest, socket: Socket): void
  response(response: IncomingMessage): void
  /** Can be called more than once, also after the response. */
  error(error: Error): void
}

/** connections: at most that many at a time; idle ones are closed after idleMs. 0 connections: no pool. */
export function createHttpProxyBackend(
  url: string,
  { connections, idleMs }: { connections: number; idleMs: number },
): HttpProxyBackend {
  const { protocol, host, hostname, port } = new URL(url)
  const isTls = protocol === 'https:'
  const Agent = isTls ? HttpsAgent : HttpAgent
  const options = {
    keepAlive: true,
    maxSockets: connections,
    maxFreeSockets: connections,
    timeout: idleMs,
  }
  return {
    isTls,
    target: { protocol, host, hostname, port: Number(port) || (isTls ? 443 : 80) },
    agent: connections > 0 ? new Agent(options) : undefined,
  }
}

/**
 * Of http-proxy-3's passes only the one that streams is kept: the others rewrite the framing of DELETE and OPTIONS
 * (a second request at the backend), add to X-Forwarded-For and set time-outs on the client's socket.
 */
const webProxy = createProxyServer({ selfHandleResponse: true })
const passes = webProxy as unknown as { webPasses: { name: string }[] }
passes.webPasses = passes.webPasses.filter(({ name }) => name === 'stream')
webProxy.on('error', () => {})
webProxy.on('proxyReq', (outgoing, request) => {
  if (outgoing.socket) standIns(request).events.socket(outgoing, outgoing.socket)
})
webProxy.on('proxyRes', (answer, request) => standIns(request).events.response(answer))

/** Starts the request and returns what ends it at once. Errors go to the events, never thrown. */
export function sendThroughHttpProxy(
  outgoing: Outgoing & { readonly body: Stream | undefined },
  events: OutgoingEvents,
): () => void {
  const standIn = new StandIn(outgoing, events)
  try {
    webProxy.web(
      standIn as unknown as IncomingMessage,
      standIn as never,
      { ...optionsFor(outgoing), buffer: outgoing.body ?? noBody },
      (error) => events.error(error),
    )
  } catch (error) {
    events.error(error instanceof Error ? error : new Error(String(error)))
  }
  return () => void standIn.emit('close')
}

const noBody = { pipe: (request: ClientRequest) => request.end() } as unknown as Stream

/** Stands in for the client's request and response: the engine gets to see what it needs, and can change nothing. */
class StandIn extends EventEmitter {
  readonly method: string
  readonly url: string
  readonly headers: Record<string, string>
  readonly socket = { destroyed: false }
  readonly writableFinished = false
  readonly events: OutgoingEvents

  constructor({ method, path }: Outgoing, events: OutgoingEvents, headers = {}) {
    super()
    this.method = method
    this.url = path
    this.headers = headers
    this.events = events
  }
}

const standIns = (request: unknown): StandIn => request as StandIn

function optionsFor({ backend, path, headers, connectTimeoutMs }: Outgoing): ServerOptions {
  return {
    target: backend.target,
    connectTimeout: connectTimeoutMs,
    ssl: exactOptions(path, headers),
    ...(backend.agent ? { agent: backend.agent } : {}),
  }
}

/**
 * http-proxy-3 fills the object given as `ssl` with the options of the outgoing request. It would re-serialise the path
 * and fold header fields into an object (losing order, duplicates and an empty query); these two it cannot overwrite.
 */
function exactOptions(path: string, headers: string[]): object {
  const fixed = (value: unknown) => ({ get: () => value, set: () => {}, enumerable: true })
  return Object.defineProperties(
    { maxHeaderSize: maxAnswerHeadBytes },
    { path: fixed(path), headers: fixed(headers) },
  )
}

export interface UpgradeEvents {
  /** The backend answered 101; anything it sent after that can be read from the socket. */
  upgraded(answer: IncomingMessage, socket: Socket): void
  /** The backend answered something else. */
  refused(answer: IncomingMessage): void
  error(error: Error): void
}

/**
 * Starts a WebSocket handshake and returns what ends it at once.
 * http-proxy-3 writes the backend's answer to the client as it likes, a refusal included; so it is given a socket that
 * leads nowhere, and is taken out of the tunnel as soon as this is made.
 */
export function upgradeThroughHttpProxy(outgoing: Outgoing, events: UpgradeEvents): () => void {
  const nowhere = new Nowhere()
  const unused = { socket: () => {}, response: () => {}, error: () => {} }
  const standIn = new StandIn(outgoing, unused, { upgrade: 'websocket' })
  const proxy = createProxyServer()
  let request: ClientRequest | undefined
  let answer: IncomingMessage | undefined
  proxy.on('error', () => {})
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
    events.error(error instanceof Error ? error : new Error(String(error)))
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
