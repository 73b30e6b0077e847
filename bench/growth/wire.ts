/**
 * A keep-alive HTTP/1.1 connection of a load generator, on a bare socket: a few microseconds a request, however many
 * keys there are. autocannon prepares every request per key and connection before it starts, which 100,000 keys on 64
 * connections rule out; wrk checks no answers, keeps no schedule and would be one more thing to install.
 */
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

export interface Answer {
  readonly status: number
  /** The head as text, CRLF between lines. */
  readonly head: string
  readonly bodyBytes: number
}

export interface Connection {
  readonly socket: Socket
  /** Sends one request; the answer to the one before must have come. bodyBytes: this much is sent after the head. */
  send(head: string, bodyBytes?: number): void
  destroy(): void
}

export interface ConnectionEvents {
  onReady?(connection: Connection): void
  /** Called once for each send. */
  onAnswer(answer: Answer, connection: Connection): void
  /** The connection is over: `cause` says why, and `waiting` whether an answer was due. */
  onEnd(end: { readonly cause: string; readonly waiting: boolean }): void
}

const bodyChunk = Buffer.alloc(65_536, 'x')

/** Opens a connection to a loopback port. isSecure: over TLS, whatever the certificate. */
export function openConnection(
  port: number,
  events: ConnectionEvents,
  isSecure = false,
): Connection {
  const target = { port, host: '127.0.0.1', noDelay: true }
  const socket = isSecure ? connectTls({ ...target, rejectUnauthorized: false }) : connect(target)
  let waiting = false
  let ended = false
  /** Bytes of an incomplete head. */
  let pending: Buffer | undefined
  let current: { status: number; head: string; bodyBytes: number } | undefined
  let bodyLeft = 0
  let toSend = 0

  const end = (cause: string): void => {
    if (ended) return
    ended = true
    socket.destroy()
    events.onEnd({ cause, waiting })
  }
  const sendBody = (): void => {
    while (toSend > 0) {
      const size = Math.min(toSend, bodyChunk.length)
      toSend -= size
      if (!socket.write(size === bodyChunk.length ? bodyChunk : bodyChunk.subarray(0, size))) return
    }
  }
  const connection: Connection = {
    socket,
    send: (head, bodyBytes = 0) => {
      waiting = true
      toSend = bodyBytes
      socket.write(head, 'latin1')
      sendBody()
    },
    destroy: () => {
      ended = true
      socket.destroy()
    },
  }
  /** Reads a head at the start of `data`; returns where the body begins, 0 while the head is incomplete. */
  const readHead = (data: Buffer): number => {
    const at = data.indexOf('\r\n\r\n')
    if (at < 0) return 0
    const head = data.toString('latin1', 0, at)
    const status = Number(head.slice(9, 12))
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
    if (status < 200) return at + 4
    if (length === undefined && status !== 204 && status !== 304) end(`${status} without a length`)
    bodyLeft = Number(length ?? 0)
    current = { status, head, bodyBytes: bodyLeft }
    return at + 4
  }
  socket.on('connect', () => events.onReady?.(connection))
  socket.on('data', (chunk: Buffer) => {
    let data: Buffer = pending ? Buffer.concat([pending, chunk]) : chunk
    pending = undefined
    while (data.length > 0 && !socket.destroyed) {
      if (!waiting) return end('an answer that nobody asked for')
      if (current === undefined) {
        const bodyAt = readHead(data)
        if (bodyAt === 0) {
          pending = data
          return
        }
        data = data.subarray(bodyAt)
        // A 1xx answer, which the real one follows; or an unreadable one, which ended the connection.
        if (current === undefined || socket.destroyed) continue
      }
      const eaten = Math.min(bodyLeft, data.length)
      bodyLeft -= eaten
      data = data.subarray(eaten)
      if (bodyLeft > 0) return
      const answer: Answer = current
      current = undefined
      waiting = false
      toSend = 0
      events.onAnswer(answer, connection)
    }
  })
  socket.on('drain', sendBody)
  socket.on('error', (error) => end((error as NodeJS.ErrnoException).code ?? error.message))
  socket.on('close', () => end('closed'))
  return connection
}

/** The value of a field in an answer's head; undefined if absent. `name` in lower case. */
export function field(head: string, name: string): string | undefined {
  for (const line of head.split('\r\n')) {
    const colon = line.indexOf(':')
    if (line.slice(0, colon).toLowerCase() === name) return line.slice(colon + 1).trim()
  }
  return undefined
}

/** Heads of requests, one per key, ready to be sent. */
export function requestHead(order: {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly key: string
  readonly bodyBytes?: number
}): string {
  const { method, path, key, bodyBytes } = order
  const length =
    method === 'POST'
      ? `Content-Type: application/octet-stream\r\nContent-Length: ${bodyBytes ?? 0}\r\n`
      : ''
  return `${method} ${path} HTTP/1.1\r\nHost: bench.example\r\nAuthorization: Bearer ${key}\r\n${length}\r\n`
}
