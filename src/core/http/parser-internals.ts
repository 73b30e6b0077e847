/** Controls the parser of Node's http by undocumented behaviour, like node-internals.ts: when it stops, and where a connection's bytes go. */
import type { IncomingMessage, Server } from 'node:http'
import type * as net from 'node:net'

/** Decides about each request when its head has been parsed, and about its body as it arrives. */
export interface ParserGuard {
  /** Decides whether the request is served; if not, http never gets it, and the parser stops after its head. */
  mayBegin(): boolean
  /** Decides whether the parser goes on after a request has begun. If not, it stops after the head with a 'clientError'. */
  mayGoOn(): boolean
  /** Decides whether a piece of a body is accepted. If not, no more are, and a 'clientError' follows. */
  mayReadOn(bodyBytes: number): boolean
}

/** Controls how a connection's bytes reach http's parser. */
export interface Intake {
  /** Gives all further bytes to onData only. */
  divert(onData: (bytes: Buffer) => void): void
  /** Parses bytes that were diverted, or left when the parser stopped; false: the connection was handed over (upgrade, CONNECT). */
  parse(bytes: Buffer): boolean
  /** Reads and drops all further bytes, a packet at a time, so that the client sees the answer and no reset. */
  discard(): void
  /** Reports whether http has paused the socket because the client does not read its answers: nothing may be parsed. */
  isPaused(): boolean
}

/** The error code HPE_PAUSED of llhttp. */
const PAUSED = 21

/** Index of the parser's callback for a parsed packet (kOnExecute of http). */
const ON_EXECUTE = 5

/** Index of the parser's callback for a piece of a body, which may be one byte (kOnBody of http). */
const ON_BODY = 3

/** Time between two dropped packets of up to 64 KiB: a client that does not stop sending must not delay others. */
const DISCARD_EVERY_MS = 10

/** A body's framing is larger than its content. */
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

/** The body callback of http, the same for all its parsers; http reuses parsers, also for its client. */
let takeBody: Parser[typeof ON_BODY]

/**
 * Lets the guard decide about the requests and bodies of a connection.
 * Ever since: the socket's parser calls `onIncoming` after each head, and llhttp stops where that returns HPE_PAUSED: the
 * 'clientError' then has the packet and how much of it was parsed, and `resume` lets the parser go on.
 * http leaves a socket's bytes to the stream when there is another 'data' listener, and its own listener parses what it is given.
 * The parser cannot stop between two chunks of one packet, but where `ON_BODY` is no function it skips them at almost no cost.
 * http keeps its server in `server` of the socket.
 * A parser that is paused between two packets reads into its own buffer and calls only `ON_EXECUTE`.
 * socket: http has just taken it, in the server's 'connection' event.
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
    // http reuses its parsers for other connections.
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
