/**
 * All code of `core` that relies on undocumented behaviour of Node's net, http and http2. Each function names that behaviour, and
 * test/core/http/node-internals.test.ts fails with a Node.js that differs. "Ever since" means since 22.19, the oldest supported version.
 */
import type { Agent, ClientRequest, Server } from 'node:http'
import type { ServerHttp2Session } from 'node:http2'
import type * as net from 'node:net'
import type { Readable } from 'node:stream'
import type { TLSSocket } from 'node:tls'

/**
 * Makes a request use a connection that is there already. Ever since: http asks the agent of a request for its connection by
 * `addRequest`. When the answer has ended it leaves a connection that it would keep without any listener of its own.
 */
export function agentOf(socket: net.Socket, onRequest: (request: ClientRequest) => void): Agent {
  const addRequest = (request: ClientRequest): void => {
    onRequest(request)
    request.onSocket(socket)
  }
  return { keepAlive: true, addRequest } as unknown as Agent
}

/** Reports whether a second answer came with the first. Ever since: http then destroys the connection without an event, and emits the first answer's end afterwards. */
export function wasAnsweredTwice({ socket, shouldKeepAlive }: ClientRequest): boolean {
  return socket?.destroyed === true && shouldKeepAlive
}

/**
 * Has a server pass each new connection to `accept` first. Returns what makes it read requests from a connection, or from TLS
 * on one. Ever since: http reads requests in the listeners that it has for its own event 'connection'.
 */
export function interpose(
  server: Server,
  accept: (socket: net.Socket) => void,
): (socket: net.Socket) => void {
  const readers = server.listeners('connection')
  server.removeAllListeners('connection').on('connection', accept)
  return (socket) => readers.forEach((read) => Reflect.apply(read, server, [socket]))
}

/** Ever since: `_parent` of a server's TLS socket is the socket that was handed over. */
export function transportOf(socket: TLSSocket): net.Socket {
  return Reflect.get(socket, '_parent') as net.Socket
}

interface Handle {
  /** net is reading from the handle. */
  readonly reading: boolean
  readStop(): void
  readStart(): void
  readonly bytesWritten: number
  readonly writeQueueSize: number
  readonly _parent?: Handle
}

/**
 * Returns the written bytes that the kernel has taken. Ever since: a socket's handle counts the bytes it was given in
 * `bytesWritten`, and those that still wait in `writeQueueSize`; the handle of a TLS socket has the one below it in `_parent`.
 */
export function takenBytes(socket: net.Socket): number {
  const handle = Reflect.get(socket, '_handle') as Handle | null
  const below = handle?._parent ?? handle
  return below === null
    ? (Reflect.get(socket, '_bytesDispatched') as number)
    : below.bytesWritten - below.writeQueueSize
}

/**
 * Stops all reading of a connection, even in the current poll: http and http2 read from the handle itself.
 * Ever since: a stopped handle brings no bytes, and the stop leaves `reading` unchanged.
 */
export function stopReading(socket: net.Socket): void {
  ;(Reflect.get(socket, '_handle') as Handle | null)?.readStop()
}

/** Undoes stopReading(), unless net itself has stopped reading meanwhile. */
export function readOn(socket: net.Socket): void {
  const handle = Reflect.get(socket, '_handle') as Handle | null
  if (handle?.reading === true) handle.readStart()
}

/**
 * Reports whether written bytes wait for the peer to read. Ever since: http2 stops reading meanwhile and resumes by itself; if
 * others make it read, it keeps the bytes without a limit.
 */
export function isWriting(socket: net.Socket): boolean {
  const handle = Reflect.get(socket, '_handle') as Handle | null
  return handle !== null && (handle._parent ?? handle).writeQueueSize > 0
}

/**
 * Makes a stream error end only its stream (RFC 9113 5.4.2, 8.1.1); a connection error still gets GOAWAY. Ever since: nghttp2
 * answers both by itself, and http2 destroys the session for both with the error number NGHTTP2_ERR_PROTO.
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
 * HTTP/2 is safe to offer. Before nghttp2 1.68.1 a client can abort the process: by a frame of wrong size after a connection error
 * (CVE-2026-27135). Node.js 22 also accepts no answer whose fields are a list.
 */
export const isHttp2Safe =
  Number(process.versions.node.split('.')[0]) >= 24 &&
  nghttp2Major * 1e6 + nghttp2Minor * 1e3 + nghttp2Patch >= 1_068_001

/**
 * Prevents an exception when a session ends before http2 has read the bytes put back on its socket. Ever since: one tick after the
 * session began, http2 calls `read` of the socket until it returns null, and throws if the session has been destroyed meanwhile.
 */
export function endHandOver(session: ServerHttp2Session, socket: net.Socket): void {
  const { read } = socket
  socket.read = (bytes) => (session.destroyed ? null : (read.call(socket, bytes) as unknown))
  process.nextTick(() => (socket.read = read))
}

/**
 * Calls onPiece for each piece of a body when it arrives, read or unread. Ever since: http2 gives the content of each DATA
 * frame to `push` of its stream.
 */
export function watchPieces(stream: Readable, onPiece: (bytes: number) => void): void {
  const { push } = stream
  // The connection's first packet may already contain a part of the body.
  if (stream.readableLength > 0) onPiece(stream.readableLength)
  stream.push = (chunk: Buffer | null) => {
    if (chunk !== null) onPiece(chunk.length)
    return push.call(stream, chunk)
  }
}
