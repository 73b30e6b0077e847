/** A client of HTTP/2 on one connection, whose answers read as those of the raw client do. */
import { connect, type ClientHttp2Stream } from 'node:http2'
import { connect as connectSocket, type Socket } from 'node:net'
import { keys } from './gateway.ts'
import { proxyHeader } from './h2-frames.ts'
import type { ParsedResponse } from './raw-client.ts'
import { until } from './until.ts'

export interface H2Request {
  readonly method?: string
  readonly path?: string
  /** null: no Authorization field. */
  readonly key?: string | null
  /** Flat: names with values; pseudo-fields too, in the place of those by default. */
  readonly fields?: readonly string[]
  readonly body?: string | Buffer
  /** The stream stays open for more of the body. */
  readonly open?: boolean
}

export interface H2Answer extends ParsedResponse {
  /** 1xx before the answer. */
  readonly interim: readonly number[]
  /** Of RST_STREAM; 0 for an orderly end. */
  readonly code: number
}

export type H2Client = Awaited<ReturnType<typeof openH2Client>>

/** On loopback; secure: over TLS, whatever the certificate. from: the address that a balancer names, without TLS. */
export async function openH2Client(port: number, { secure = false, from = '' } = {}) {
  const origin = `${secure ? 'https' : 'http'}://localhost:${port}`
  const named = (): Socket => {
    const socket = connectSocket({ port, host: '127.0.0.1', noDelay: true })
    socket.write(proxyHeader(from))
    return socket
  }
  const session = connect(origin, {
    rejectUnauthorized: false,
    family: 4,
    ...(from !== '' && { createConnection: named }),
  } as object)
  let goaway: number | undefined
  session.on('goaway', (code) => (goaway = code))
  session.on('error', () => {})
  await new Promise<void>((resolve, reject) => {
    session.once('connect', () => resolve())
    session.once('error', reject)
  })
  /** Sends a request, and returns its stream. */
  const start = (request: H2Request = {}): ClientHttp2Stream => {
    const { method = 'GET', path = '/v1/pets', key = keys.pro, fields = [], body, open } = request
    const standard = [':method', method, ':path', path, ':authority', 'api.example']
    const scheme = [':scheme', secure ? 'https' : 'http']
    const credential = key === null ? [] : ['authorization', `Bearer ${key}`]
    const own = [...standard, ...scheme, ...credential]
    const kept = own.filter((_, at) => !fields.includes(own[at - (at % 2)] ?? ''))
    const endStream = body === undefined && open !== true
    const stream = session.request([...kept, ...fields], { endStream })
    stream.on('error', () => {})
    if (body !== undefined && open === true) stream.write(body)
    else if (body !== undefined) stream.end(body)
    return stream
  }
  return {
    session,
    /** Code of GOAWAY, once it came. */
    get goaway() {
      return goaway
    },
    get closed() {
      return session.destroyed
    },
    start,
    /** What came on it, once it has closed. */
    answer: readAnswer,
    request: (request?: H2Request) => readAnswer(start(request)),
    close: () => session.destroy(),
  }
}

function readAnswer(stream: ClientHttp2Stream): Promise<H2Answer> {
  const chunks: Buffer[] = []
  const interim: number[] = []
  let headers: readonly string[] = []
  let ended = false
  stream.on('headers', ({ ':status': status }) => interim.push(Number(status)))
  stream.on('response', (_fields, _flags, raw: readonly string[]) => (headers = raw))
  stream.on('data', (chunk: Buffer) => chunks.push(chunk))
  stream.on('end', () => (ended = true))
  const all = (name: string): string[] =>
    headers.filter((_, at) => at % 2 === 1 && headers[at - 1] === name)
  return new Promise((resolve) => {
    stream.once('close', () => {
      const code = stream.rstCode ?? 0
      resolve({
        status: Number(all(':status')[0] ?? 0),
        reason: '',
        version: '2.0',
        headers,
        body: Buffer.concat(chunks),
        complete: ended && code === 0,
        framing: 'none',
        header: (name) => all(name)[0],
        all,
        interim,
        code,
      })
    })
  })
}

/** Until the gateway has ended the connection, and for how long that may take. */
export const ended = (client: H2Client, timeoutMs = 20_000): Promise<void> =>
  until(() => client.closed, 'the end of the connection', timeoutMs)
