/**
 * A keep-alive HTTP/1.1 connection of the load generator, on a bare socket: a few microseconds a request, however many keys there are.
 * autocannon prepares every request per key and connection before it starts, which 100,000 keys on 64 connections rule
 * out, and sends a constant rate in bursts; wrk checks no answers and keeps no schedule.
 */
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'

export interface Answer {
  readonly status: number
  /** The head as text, CRLF between lines. */
  readonly head: string
  readonly bodyBytes: number
  /** The body as text, if it has at most 4,096 bytes. */
  readonly body: string
  /** It announces that it is the last of its connection. */
  readonly isLast: boolean
}

export interface Connection {
  readonly socket: Socket
  /** Sends the bytes of one request; the answer to the one before must have come. */
  send(request: string): void
  destroy(): void
}

export interface ConnectionEvents {
  onReady?(connection: Connection): void
  /** Called once for each send. */
  onAnswer(answer: Answer, connection: Connection): void
  /** The connection is over: `cause` says why, and `waiting` whether an answer was due. */
  onEnd(end: { readonly cause: string; readonly waiting: boolean }): void
}

const longestText = 4_096

export interface SocketOptions {
  /** Protocols that it offers over TLS. */
  readonly alpn?: readonly string[]
  /** Over TLS, whatever the certificate. Default: where `alpn` is given. */
  readonly isSecure?: boolean
  /** The address that the server sees. */
  readonly localAddress?: string
  /** It goes on sending when the server has sent its end. */
  readonly allowHalfOpen?: boolean
}

/** Opens a socket to a loopback port. */
export function openSocket(port: number, options: SocketOptions = {}): Socket {
  const { alpn, isSecure = alpn !== undefined, localAddress, allowHalfOpen = false } = options
  const from = { localAddress: localAddress ?? '127.0.0.1', noDelay: true, allowHalfOpen }
  const target = { host: '127.0.0.1', port, ...from }
  if (!isSecure) return connect(target)
  const protocols = alpn && { ALPNProtocols: [...alpn] }
  return connectTls({ ...target, ...protocols, rejectUnauthorized: false })
}

/** Opens a connection to a loopback port. */
export function openConnection(
  port: number,
  events: ConnectionEvents,
  options: SocketOptions = {},
): Connection {
  const socket = openSocket(port, options)
  let waiting = false
  let ended = false
  /** Bytes of an incomplete head. */
  let pending: Buffer | undefined
  let current: { -readonly [Name in keyof Answer]: Answer[Name] } | undefined
  let bodyLeft = 0

  const end = (cause: string): void => {
    if (ended) return
    ended = true
    socket.destroy()
    events.onEnd({ cause, waiting })
  }
  const connection: Connection = {
    socket,
    send: (request) => {
      waiting = true
      socket.write(request, 'latin1')
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
    const isLast = /\r\nconnection: *close/i.test(head)
    current = { status, head, bodyBytes: bodyLeft, body: '', isLast }
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
      if (current.bodyBytes <= longestText) current.body += data.toString('latin1', 0, eaten)
      data = data.subarray(eaten)
      if (bodyLeft > 0) return
      const answer: Answer = current
      current = undefined
      waiting = false
      events.onAnswer(answer, connection)
    }
  })
  socket.on('error', (error) => end((error as NodeJS.ErrnoException).code ?? error.message))
  socket.on('close', () => end('closed'))
  return connection
}

export interface HeadParts {
  readonly key?: string | undefined
  readonly method?: string
  /** Further lines, each with its end. */
  readonly more?: string
}

/** The head of a request, ready to be sent. */
export function requestHead(path: string, { key, method = 'GET', more = '' }: HeadParts): string {
  const authorization = key === undefined ? '' : `Authorization: Bearer ${key}\r\n`
  return `${method} ${path} HTTP/1.1\r\nHost: bench.example\r\n${authorization}${more}\r\n`
}

export type Asker = ReturnType<typeof openAsker>

/** A connection that is asked one request at a time. */
export function openAsker(port: number, options: SocketOptions = {}) {
  let isOpen = true
  let settle: ((answer: Answer | string) => void) | undefined
  const close = (): void => {
    isOpen = false
    connection.destroy()
  }
  const connection = openConnection(
    port,
    {
      onAnswer: (answer) => {
        if (answer.isLast) close()
        settle?.(answer)
      },
      onEnd: ({ cause }) => {
        isOpen = false
        settle?.(cause)
      },
    },
    options,
  )
  return {
    isOpen: () => isOpen,
    /** Resolves with the answer, or with why there is none. */
    ask: (request: string): Promise<Answer | string> =>
      new Promise((resolve) => {
        if (!isOpen) return resolve('closed')
        settle = resolve
        connection.send(request)
      }),
    close,
  }
}

/** Runs so many loops side by side, until all have ended. */
export async function inLanes(count: number, lane: () => Promise<void>): Promise<void> {
  await Promise.all(Array.from({ length: count }, lane))
}
