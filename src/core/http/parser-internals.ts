/** As node-internals.ts, for the parser of Node's http: when it stops, and what becomes of a connection's bytes. */
import type { IncomingMessage, Server } from 'node:http'
import type * as net from 'node:net'

/** Asked about each request when its head has been read, and about its body as it comes. */
export interface ParserGuard {
  /** Whether it is to be served; if not, http never hears of it, and the parser stops behind its head. */
  mayBegin(): boolean
  /** Whether the parser goes on, once the request has begun. If not, it stops behind the head, and tells with a 'clientError'. */
  mayGoOn(): boolean
  /** Whether a piece of a body is taken. If not, none is any more, and a 'clientError' says so. */
  mayReadOn(bodyBytes: number): boolean
}

/** The way of a connection's bytes to http's parser. */
export interface Intake {
  /** From now on what arrives is given to onData, and to nobody else. */
  divert(onData: (bytes: Buffer) => void): void
  /** Of what was diverted, or left by a stop of the parser; false if the connection was handed over (upgrade, CONNECT). */
  parse(bytes: Buffer): boolean
  /** From now on what arrives is read a packet at a time and dropped, so that the client sees the answer and not a reset. */
  discard(): void
  /** http has paused the socket, for answers that the client does not read: nothing may be parsed. */
  isPaused(): boolean
}

/** HPE_PAUSED of llhttp. */
const PAUSED = 21

/** Of llhttp's callbacks: what becomes of a packet that was parsed; kOnExecute of http. */
const ON_EXECUTE = 5

/** And of a piece of a body: of each chunk, be it a byte; kOnBody of http. */
const ON_BODY = 3

/** Between two packets of up to 64 KiB that are dropped: nobody is kept waiting by a client that does not stop. */
const DISCARD_EVERY_MS = 10

/** More framing than body. */
class TinyChunks extends Error {
  readonly code = 'TOLLGATE_TINY_CHUNKS'

  constructor() {
    super('a body of more framing than content')
  }
}

interface Parser {
  onIncoming(request: IncomingMessage & { upgrade: boolean }, keepAlive: boolean): number
  pause(): void
  resume(): void
  [ON_EXECUTE]: unknown
  [ON_BODY]: ((this: Parser, bytes: Buffer) => unknown) | undefined
}

/** That of http, which all its parsers have; they are used again for other connections, those of its client too. */
let takeBody: Parser[typeof ON_BODY]

/**
 * Ever since: http keeps in `onIncoming` of the socket's parser what it does once a head was read, and llhttp stops where that
 * returns HPE_PAUSED: 'clientError' then has the packet and how much of it was parsed, and `resume` lets the parser go on.
 * http leaves the bytes of a socket to the stream when somebody listens for 'data', and its own listener parses what it is given.
 * It cannot be stopped between two chunks of one packet, but where `ON_BODY` is no function it passes over them at next to no cost;
 * http keeps its server in `server` of the socket.
 * A parser that is paused between two packets reads into a buffer of its own, and tells `ON_EXECUTE` alone.
 * socket: one that http has just taken, in the server's 'connection'.
 */
export function guardParser(socket: net.Socket, guard: ParserGuard): Intake {
  const connection = socket as net.Socket & {
    parser: Parser | null
    server: Server
    _paused: boolean
  }
  const parser = connection.parser as Parser
  const begin = parser.onIncoming
  parser.onIncoming = (request, keepAlive) => {
    if (!guard.mayBegin()) {
      request.upgrade = false
      return PAUSED
    }
    const verdict = begin(request, keepAlive)
    return request.upgrade || guard.mayGoOn() ? verdict : PAUSED
  }
  const take = (takeBody ??= parser[ON_BODY])
  parser[ON_BODY] = (bytes) => {
    if (connection.parser !== parser || guard.mayReadOn(bytes.length))
      return take?.call(parser, bytes)
    parser[ON_BODY] = undefined
    // http keeps its parsers for other connections.
    socket.once('close', () => (parser[ON_BODY] = take))
    return connection.server.emit('clientError', new TinyChunks(), socket)
  }
  const [parse] = socket.listeners('data') as ((bytes: Buffer) => void)[]
  let listener = parse
  const divert = (onData: (bytes: Buffer) => void): void => {
    if (listener === onData) return
    if (listener !== undefined) socket.removeListener('data', listener)
    listener = onData
    socket.on('data', onData)
  }
  const resume = () => socket.resume()
  const rest = (): void => {
    socket.pause()
    setTimeout(resume, DISCARD_EVERY_MS)
  }
  return {
    divert,
    discard: () => {
      if (listener !== parse || connection.parser !== parser) return divert(rest)
      parser.pause()
      parser[ON_EXECUTE] = rest
    },
    parse: (bytes) => {
      if (connection.parser !== parser) return false
      parser.resume()
      parse?.(bytes)
      if (connection.parser === parser) return true
      if (listener !== undefined) socket.removeListener('data', listener)
      return false
    },
    isPaused: () => connection._paused,
  }
}
