/**
 * All that relies on how Node's net and http work where their documentation promises nothing. Each function says on what, and
 * test/core/http/node-internals.test.ts fails with a Node.js that does it otherwise. "Ever since" is as far back as 22.19, the oldest we run on.
 */
import {
  ServerResponse,
  type Agent,
  type ClientRequest,
  type IncomingMessage,
  type Server,
} from 'node:http'
import type { ServerHttp2Session } from 'node:http2'
import * as net from 'node:net'
import type { Duplex, Readable } from 'node:stream'
import type { TLSSocket } from 'node:tls'
import { getSystemErrorName } from 'node:util'
import type { ListenAddress } from '../../config/config.ts'
import type { ClientChannel, OutgoingResponse } from './messages.ts'

/** How long a closing connection is still read, so that the client sees the answer and not a reset (RFC 9112 9.6). */
const LINGER_MS = 1_000

/** Ever since: http reads `shouldKeepAlive` when it writes the head. false: it says `Connection: close`, and closes behind the answer. */
export function makeLast(response: OutgoingResponse): void {
  response.shouldKeepAlive = false
}

/** Ever since: http reads the server's `maxHeaderSize` for each connection that it takes. */
export function limitHeads(server: Server, bytes: number): void {
  ;(server as Server & { maxHeaderSize: number }).maxHeaderSize = bytes
}

/** Ever since: http sets `shouldKeepAlive` from the request's version and Connection field before anybody hears of the request. */
export function isLast(response: OutgoingResponse): boolean {
  return !response.shouldKeepAlive
}

/**
 * Writes 100 Continue in its turn: while an earlier answer has the socket it would wait with the final one, and go out behind its head.
 * Ever since: a response emits 'socket' when it gets the socket, before any of its own bytes go out.
 */
export function writeContinue(response: OutgoingResponse): void {
  const write = (): void => {
    // A final answer that is there already says all (RFC 9110 10.1.1).
    if (!response.headersSent) response.writeContinue()
  }
  if (response.socket !== null) write()
  else response.once('socket', write)
}

/**
 * Makes the coming close of this connection a graceful one: our side ends, what the client still sends is read and
 * dropped for a moment, then it is destroyed. Closing with unread bytes would reset the connection and could take
 * the answer with it.
 * Ever since: http closes behind a last answer by calling the socket's own `destroySoon`, which may be another than net's.
 */
export function lingerOnClose(socket: net.Socket): void {
  socket.destroySoon = () => {
    socket.end()
    socket.resume()
    const timer = setTimeout(() => socket.destroy(), LINGER_MS)
    socket.once('close', () => clearTimeout(timer))
    socket.once('end', () => socket.destroy())
  }
}

/**
 * A response for a request that Node handed over with its bare socket (upgrade, CONNECT); the connection ends with it.
 * Ever since: `assignSocket` makes a response write to a socket, and what http does at its end is left to us.
 */
export function responseOnSocket(request: IncomingMessage, socket: Duplex): ServerResponse {
  const response = new ServerResponse(request)
  makeLast(response)
  const connection = socket as net.Socket
  response.assignSocket(connection)
  response.once('finish', () => {
    response.detachSocket(connection)
    response.emit('close')
    lingerOnClose(connection)
    connection.destroySoon()
  })
  return response
}

/**
 * Ends the responses that a connection has left without a word: Node 22 emits no 'close' on pipelined ones that had not got the
 * socket yet. Ever since: those that it does end have ended one turn after the socket's 'close', whoever listened first.
 */
export function endWithSocket(
  socket: Pick<ClientChannel, 'once'>,
  unended: () => readonly Pick<OutgoingResponse, 'emit'>[],
): void {
  socket.once('close', () =>
    setImmediate(() => {
      for (const response of unended()) response.emit('close')
    }),
  )
}

/** Ever since: a request with more fields than `maxHeadersCount` (2,000 unless set) loses the rest in silence, or is refused by Node 26; 0 lets all pass. */
export function keepEveryField(server: Server): void {
  server.maxHeadersCount = 0
}

export interface AgentRests {
  /** Infinity: the connection is closed. */
  restMs(socket: net.Socket): number
  /** Asked behind a rest: false closes the connection. */
  mayGoOn(socket: net.Socket): boolean
  /** Something came on a connection that carried nothing, and which is closed. */
  onStray(): void
}

/**
 * The agent takes a connection for free only after `restMs`, and a whole turn of the event loop, in which nothing came on it:
 * by itself it would give it to the next request in the very call that ends the answer.
 * Ever since: an agent tells itself by its own event 'free' of a connection that carries nothing, with the last request in
 * `_httpMessage` unless it is new, and counts it as taken until then; what closes meanwhile it forgets by itself. Nobody but us hears its errors until then.
 * Before Node 26 nobody reads one that is free.
 */
export function restBetweenRequests(agent: Agent, rests: AgentRests): void {
  const readBytes = new WeakMap<net.Socket, number>()
  const end = function (this: net.Socket): void {
    this.destroy()
  }
  // Node 26 itself may have read what came.
  const onClose = function (this: net.Socket): void {
    if (this.bytesRead > (readBytes.get(this) ?? Infinity)) rests.onStray()
  }
  const guard = (socket: net.Socket): void => {
    readBytes.set(socket, socket.bytesRead)
    socket.on('data', end).on('error', end).on('close', onClose)
  }
  const release = (socket: net.Socket): void =>
    void socket.off('data', end).off('error', end).off('close', onClose)

  const emit = agent.emit.bind(agent)
  agent.emit = (event: string | symbol, ...args: unknown[]) => {
    const socket = args[0] as net.Socket & { readonly _httpMessage?: unknown }
    if (event !== 'free' || socket.destroyed || !socket._httpMessage) return emit(event, ...args)
    guard(socket)
    const free = (): void => {
      if (socket.destroyed) return
      release(socket)
      emit(event, ...args)
    }
    const rest = rests.restMs(socket)
    if (rest === Infinity) socket.destroy()
    else if (rest === 0) setImmediate(setImmediate, free)
    else
      setTimeout(() => {
        if (rests.mayGoOn(socket)) setImmediate(setImmediate, free)
        else socket.destroy()
      }, rest)
    return true
  }
  const keepSocketAlive = agent.keepSocketAlive.bind(agent)
  agent.keepSocketAlive = (socket) => {
    guard(socket as net.Socket)
    return keepSocketAlive(socket)
  }
  const reuseSocket = agent.reuseSocket.bind(agent)
  agent.reuseSocket = (socket, request) => {
    release(socket as net.Socket)
    reuseSocket(socket, request)
  }
}

/** Ever since: http destroys a connection without an event when a second answer comes with the first, and emits the first one's end afterwards. */
export function wasAnsweredTwice({ socket, shouldKeepAlive }: ClientRequest): boolean {
  return socket?.destroyed === true && shouldKeepAlive
}

/**
 * Lets a server that listens nowhere serve what feed() brings it.
 * Ever since: http begins to check its time-outs, and to know which connections are idle, when it hears its own 'listening'.
 */
export function serveUnbound(server: Server): void {
  server.emit('listening')
}

/**
 * Hands a connection over as if the server had accepted it, with what was read of it and put back.
 * Ever since: http takes what 'connection' brings, a TLS socket too; one that was paused it leaves so.
 */
export function feed(server: net.Server, socket: net.Socket): void {
  server.emit('connection', socket)
  if (socket.isPaused()) socket.resume()
}

/** Ever since: `_parent` of a TLS socket of a server is the one that was handed over. */
export function transportOf(socket: TLSSocket): net.Socket {
  return Reflect.get(socket, '_parent') as net.Socket
}

interface Handle {
  /** net reads of it. */
  readonly reading: boolean
  readStop(): void
  readStart(): void
  readonly bytesWritten: number
  readonly writeQueueSize: number
  readonly _parent?: Handle
}

/**
 * What the kernel took of all that was written. Ever since: the handle of a socket counts in `bytesWritten` what it was given,
 * of which `writeQueueSize` waits there; that of a TLS socket has the one below it in `_parent`.
 */
export function takenBytes(socket: ClientChannel): number {
  if (socket.takenBytes !== undefined) return socket.takenBytes
  const handle = Reflect.get(socket, '_handle') as Handle | null
  const below = handle?._parent ?? handle
  return below === null
    ? (Reflect.get(socket, '_bytesDispatched') as number)
    : below.bytesWritten - below.writeQueueSize
}

/**
 * Nothing more is read of a connection, not even in the poll that is under way, whoever takes its bytes: http and http2 have them
 * from the handle itself. Ever since: a handle that was stopped brings nothing, and what stands in `reading` is not touched by that.
 */
export function stopReading(socket: net.Socket): void {
  ;(Reflect.get(socket, '_handle') as Handle | null)?.readStop()
}

/** Undoes stopReading(); who has stopped for himself meanwhile goes on for himself. */
export function readOn(socket: net.Socket): void {
  const handle = Reflect.get(socket, '_handle') as Handle | null
  if (handle?.reading === true) handle.readStart()
}

/**
 * What was written waits for the peer to read. Ever since: http2 reads nothing meanwhile and reads on by itself; what somebody
 * else has it read then is kept, however much it is.
 */
export function isWriting(socket: net.Socket): boolean {
  const handle = Reflect.get(socket, '_handle') as Handle | null
  return handle !== null && (handle._parent ?? handle).writeQueueSize > 0
}

/**
 * What is wrong with one stream ends that stream alone (RFC 9113 5.4.2, 8.1.1), and what is wrong with the connection is answered by
 * GOAWAY all the same. Ever since: nghttp2 answers either by itself, and http2 destroys the session for both with an error of this number.
 */
export function outliveFaults(session: ServerHttp2Session): void {
  const { destroy } = session
  session.destroy = (error?: Error & { errno?: number }, code?: number) => {
    if (error?.errno !== NGHTTP2_ERR_PROTO) destroy.call(session, error, code)
  }
}

const NGHTTP2_ERR_PROTO = -505

const [nghttp2Major = 0, nghttp2Minor = 0, nghttp2Patch = 0] = String(process.versions['nghttp2'])
  .split('.')
  .map(Number)

/**
 * Whether clients of HTTP/2 may be let in. Before nghttp2 1.68.1 the frames of one of them can abort the process: a frame of a wrong
 * size behind a fault of the connection (CVE-2026-27135). Node.js 22 besides takes no answer whose fields are a list.
 */
export const isHttp2Safe =
  Number(process.versions.node.split('.')[0]) >= 24 &&
  nghttp2Major * 1e6 + nghttp2Minor * 1e3 + nghttp2Patch >= 1_068_001

/**
 * A session that ends before http2 has read what was put back on its socket ends nothing else. Ever since: http2 calls `read` of the
 * socket for it one tick after the session began, until that returns null, and throws where the session has been destroyed meanwhile.
 */
export function endHandOver(session: ServerHttp2Session, socket: net.Socket): void {
  const { read } = socket
  socket.read = (bytes) => (session.destroyed ? null : (read.call(socket, bytes) as unknown))
  process.nextTick(() => (socket.read = read))
}

/**
 * Hears of each piece of a body as it comes, be it read or not. Ever since: http2 gives the content of each DATA frame to `push`
 * of its stream.
 */
export function watchPieces(stream: Readable, onPiece: (bytes: number) => void): void {
  const { push } = stream
  // Of a connection's first packet, which http2 was handed over.
  if (stream.readableLength > 0) onPiece(stream.readableLength)
  stream.push = (chunk: Buffer | null) => {
    if (chunk !== null) onPiece(chunk.length)
    return push.call(stream, chunk)
  }
}

/**
 * The end of what is read has come, be it read or not, which `readableEnded` tells only of what was read.
 * Ever since: a Readable keeps it in `ended` of its `_readableState`.
 */
export function endHasCome(stream: Readable): boolean {
  return (Reflect.get(stream, '_readableState') as { readonly ended: boolean }).ended
}

/** A bound socket on which nobody listens in this process. */
export interface ListenSocket {
  readonly fd: number
  /** Once. */
  close(): void
}

interface BoundHandle {
  readonly fd: number
  /** 0, or the negative number of an error. */
  getsockname(address: object): number
  close(): void
}

// Documented as of Node.js 26.4; older ones have the same under the name that node:cluster uses.
const { BoundSocket, _createServerHandle: createServerHandle } = net as {
  readonly BoundSocket?: typeof net.BoundSocket
  readonly _createServerHandle?: (
    ...binding: [host: string, port: number, family: 4 | 6, fd: -1, flags: number]
  ) => BoundHandle | number
}
const UV_TCP_REUSEPORT = 2

/** Throws Node's error if the address cannot be had. */
export function bindSocket({
  host,
  port,
  reusePort,
}: ListenAddress & { readonly reusePort: boolean }): ListenSocket {
  if (BoundSocket !== undefined) {
    const socket = new BoundSocket({ host, port, reusePort })
    return { fd: socket.fd(), close: () => socket.close() }
  }
  if (createServerHandle === undefined)
    throw new Error('this Node.js cannot bind a socket for workers; write server.workers: 1')
  const flags = reusePort ? UV_TCP_REUSEPORT : 0
  const handle = createServerHandle(host, port, net.isIPv6(host) ? 6 : 4, -1, flags)
  // An address in use is told by the first call after the bind.
  const fault = typeof handle === 'number' ? handle : handle.getsockname({})
  if (typeof handle === 'number' || fault !== 0)
    throw Object.assign(new Error(`bind ${host}:${port}`), { code: getSystemErrorName(fault) })
  return { fd: handle.fd, close: () => handle.close() }
}
