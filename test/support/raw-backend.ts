/** A TCP backend that records every byte, reads requests with a strict HTTP/1.1 parser, and answers with scripted raw bytes. */
import { createServer, type AddressInfo, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { atEnd } from './ending.ts'
import { readRequests, type RequestReader } from './strict-request-reader.ts'
import { until } from './until.ts'

export { until }

export interface RecordedRequest {
  readonly method: string
  readonly target: string
  readonly version: string
  /** Flat name, value array exactly as received. */
  readonly headers: readonly string[]
  readonly framing: 'none' | 'length' | 'chunked'
  readonly body: Buffer
  /** 1 for the first connection the backend accepted. */
  readonly connection: number
  /** First value of the field, by case-insensitive name. */
  header(name: string): string | undefined
  /** All values of the field, in order. */
  all(name: string): string[]
}

export const closeConnection = Symbol('close the connection in order (FIN)')
export const resetConnection = Symbol('reset the connection (RST)')

/** Text is sent as latin1; a number is a pause in ms. */
export type AnswerStep = string | Buffer | number | typeof closeConnection | typeof resetConnection
/** undefined sends nothing and leaves the connection open. */
export type Answer = AnswerStep | readonly AnswerStep[] | undefined

export interface BackendConnection {
  readonly id: number
  readonly socket: Socket
  readonly requests: readonly RecordedRequest[]
  /** Everything received on this connection. */
  raw(): Buffer
  /** What was ambiguous or not HTTP/1.1; parsing stops at the first problem. */
  readonly problem: string | undefined
  readonly closed: boolean
  play(answer: Answer): Promise<void>
}

export interface RawBackendOptions {
  /** Called once per complete request. Default: a 200 with the body "ok". */
  respond?: (request: RecordedRequest, connection: BackendConnection) => Answer | Promise<Answer>
  /** Called when a request head has arrived, before its body; may answer early through connection.play. */
  onHead?: (request: RecordedRequest, connection: BackendConnection) => void
  onConnection?: (connection: BackendConnection) => void
}

export type RawBackend = Awaited<ReturnType<typeof startRawBackend>>

/** An answer with Content-Length; header fields are lines without line ends. */
export function answer(status: number, body: string | Buffer = '', ...fields: string[]): Buffer {
  const lines = [`HTTP/1.1 ${status} Scripted`, ...fields, `Content-Length: ${body.length}`]
  return Buffer.concat([
    Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'),
    Buffer.isBuffer(body) ? body : Buffer.from(body, 'latin1'),
  ])
}

/** Listens on a free loopback port (or the given one); the url is that of 127.0.0.1. */
export async function startRawBackend(
  options: RawBackendOptions & { host?: string; port?: number } = {},
) {
  const connections: BackendConnection[] = []
  const requests: RecordedRequest[] = []
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
    const connection = openConnection(socket, connections.length + 1, { ...options, requests })
    connections.push(connection)
    options.onConnection?.(connection)
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(options.port ?? 0, options.host ?? '127.0.0.1', resolve)
  })
  const { port } = server.address() as AddressInfo
  const close = async (): Promise<void> => {
    for (const { socket } of connections) socket.destroy()
    await new Promise<void>((resolve) => server.close(() => resolve()))
  }
  atEnd(close)
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    connections: connections as readonly BackendConnection[],
    /** All requests over all connections, in order of arrival. */
    requests: requests as readonly RecordedRequest[],
    /** Problems of all connections; a test of honest traffic expects []. */
    problems: () =>
      connections.flatMap(({ id, problem }) => (problem ? [`connection ${id}: ${problem}`] : [])),
    openConnections: () => connections.filter(({ closed }) => !closed).length,
    waitFor: until,
    close,
  }
}

function openConnection(
  socket: Socket,
  id: number,
  { respond, onHead, requests }: RawBackendOptions & { requests: RecordedRequest[] },
): BackendConnection {
  const received: Buffer[] = []
  const own: RecordedRequest[] = []
  const respondTo = respond ?? (() => answer(200, 'ok'))
  const connection = {
    id,
    socket,
    requests: own,
    raw: () => Buffer.concat(received),
    get problem() {
      return reader.problem
    },
    closed: false,
    play: (script: Answer) => play(socket, script),
  }
  // Answers keep the order of the requests, also when respond is slow.
  let turn = Promise.resolve()
  const reader: RequestReader = readRequests(id, {
    head: (request) => onHead?.(request, connection),
    request: (request) => {
      own.push(request)
      requests.push(request)
      turn = turn.then(async () => play(socket, await respondTo(request, connection)))
    },
  })
  socket.on('data', (chunk: Buffer) => {
    received.push(chunk)
    reader.push(chunk)
  })
  socket.on('end', () => {
    reader.end()
    socket.end()
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    connection.closed = true
  })
  return connection
}

async function play(socket: Socket, script: Answer): Promise<void> {
  const steps = Array.isArray(script) ? (script as readonly AnswerStep[]) : [script as AnswerStep]
  for (const step of steps) {
    if (socket.destroyed || step === undefined) return
    if (typeof step === 'number') await sleep(step)
    else if (step === closeConnection) socket.end()
    else if (step === resetConnection) socket.resetAndDestroy()
    else socket.write(typeof step === 'string' ? Buffer.from(step, 'latin1') : step)
  }
}
