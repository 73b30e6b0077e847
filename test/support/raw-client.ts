/** A raw socket client: sends exact bytes, keeps every byte that comes back, and parses it as strict HTTP/1.1 responses. */
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls, type ConnectionOptions } from 'node:tls'
import { readFields } from './strict-request-reader.ts'

export interface ParsedResponse {
  readonly status: number
  readonly reason: string
  readonly version: string
  /** Flat name, value array exactly as received. */
  readonly headers: readonly string[]
  readonly body: Buffer
  /** The body arrived up to the end that its framing announced. */
  readonly complete: boolean
  readonly framing: 'none' | 'length' | 'chunked' | 'close'
  /** First value of the field, by case-insensitive name. */
  header(name: string): string | undefined
  /** All values of the field, in order. */
  all(name: string): string[]
}

export interface RawExchange {
  /** Interim (1xx) answers included. */
  readonly responses: ParsedResponse[]
  /** Those of the answers. */
  readonly statuses: number[]
  /** Every byte received. */
  readonly raw: Buffer
  /** The server closed (or reset) the connection. */
  readonly closed: boolean
  /** What could not be read as an HTTP/1.1 response; undefined when all bytes could. */
  readonly problem: string | undefined
}

interface ParseOptions {
  /** Speaks TLS, with these options. */
  readonly tls?: ConnectionOptions | undefined
  /** Sent before all else, and before TLS. */
  readonly before?: string
  /** Methods of the requests sent, in order: the answer to HEAD has no body. Default: GET for all. */
  readonly methods?: readonly string[]
}

export interface RawExchangeOptions extends ParseOptions {
  /** Gives up waiting after this time and returns what there is. Default: a minute. */
  readonly timeoutMs?: number
  /** Returns as soon as that many final answers are complete; without it, when the server closes or at the timeout. */
  readonly responses?: number
}

export type RawClient = Awaited<ReturnType<typeof openRawClient>>

/** Connects to the loopback port. */
export async function openRawClient(port: number, options: ParseOptions = {}) {
  const chunks: Buffer[] = []
  let closed = false
  const { tls } = options
  const transport = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
  if (options.before !== undefined) transport.write(options.before)
  const socket =
    tls === undefined ? transport : connectTls({ host: '127.0.0.1', ...tls, socket: transport })
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.on('end', () => (closed = true))
  socket.on('close', () => (closed = true))
  await new Promise<void>((resolve, reject) => {
    socket.once(tls === undefined ? 'connect' : 'secureConnect', resolve)
    socket.once('error', reject)
  })
  socket.on('error', () => {})
  /** What has arrived up to now. */
  const received = (): RawExchange => {
    const raw = Buffer.concat(chunks)
    const parsed = parseResponses(raw, { ...options, closed })
    return { ...parsed, statuses: parsed.responses.map(({ status }) => status), raw, closed }
  }
  /** Waits for a state of affairs; returns it, or throws after timeoutMs. */
  const waitFor = async (condition: (exchange: RawExchange) => boolean, timeoutMs = 60_000) => {
    const deadline = Date.now() + timeoutMs
    let seenChunks = -1
    let seenClosed = false
    for (;;) {
      const startedMs = performance.now()
      if (chunks.length !== seenChunks || closed !== seenClosed) {
        seenChunks = chunks.length
        seenClosed = closed
        const exchange = received()
        if (condition(exchange)) return exchange
      }
      if (Date.now() > deadline)
        throw new Error(`waited ${timeoutMs} ms in vain; received: ${excerpt(chunks)}`)
      // To read much again and again leaves the others their time.
      await sleep(Math.max(5, 2 * (performance.now() - startedMs)))
    }
  }
  return {
    socket,
    /** Text is sent as latin1. */
    send: (bytes: string | Buffer): void => {
      if (!socket.destroyed)
        socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes)
    },
    received,
    waitFor,
    /** Waits for that many complete final answers. */
    waitForResponses: (count: number, timeoutMs?: number) =>
      waitFor((exchange) => finalResponses(exchange) >= count, timeoutMs),
    /** Ends the sending side (FIN). */
    end: () => void socket.end(),
    /** RST. */
    reset: () => void transport.resetAndDestroy(),
    destroy: () => void socket.destroy(),
  }
}

/** Sends the bytes on a new connection and returns what came back; see RawExchangeOptions for when. */
export async function rawExchange(
  port: number,
  bytes: string | Buffer,
  { timeoutMs = 60_000, responses = Number.POSITIVE_INFINITY, ...options }: RawExchangeOptions = {},
): Promise<RawExchange> {
  const client = await openRawClient(port, options)
  client.send(bytes)
  try {
    return await client.waitFor(
      (exchange) => exchange.closed || finalResponses(exchange) >= responses,
      timeoutMs,
    )
  } catch {
    return client.received()
  } finally {
    client.destroy()
  }
}

function finalResponses({ responses }: RawExchange): number {
  return responses.filter(({ status, complete }) => complete && (status >= 200 || status === 101))
    .length
}

function excerpt(chunks: Buffer[]): string {
  return JSON.stringify(Buffer.concat(chunks).toString('latin1').slice(0, 2_000))
}

const statusLine = /^HTTP\/(1\.[01]) ([0-9]{3}) ([\t\x20-\x7e\x80-\xff]*)$/
/** Reads as many responses as the bytes hold; an unfinished last one is listed with complete: false. */
export function parseResponses(
  raw: Buffer,
  { methods = [], closed = false }: ParseOptions & { closed?: boolean } = {},
): { responses: ParsedResponse[]; problem: string | undefined } {
  const responses: ParsedResponse[] = []
  let at = 0
  let finals = 0
  while (at < raw.length) {
    const end = raw.indexOf('\r\n\r\n', at)
    if (end < 0) {
      const problem = closed ? `cut off in a head: ${quote(raw, at)}` : undefined
      return { responses, problem }
    }
    const head = parseHead(raw.toString('latin1', at, end))
    if (typeof head === 'string') return { responses, problem: head }
    const framing = framingOf(head, methods[finals] ?? 'GET')
    if (framing === undefined) return { responses, problem: `ambiguous framing: ${quote(raw, at)}` }
    const { next, ...body } = readBody(raw.subarray(end + 4), framing, { head, closed })
    responses.push({ ...head, ...body, framing })
    if (next === undefined) return { responses, problem: `bad chunk: ${quote(raw, end + 4)}` }
    at = end + 4 + next
    // What follows a 101 is another protocol.
    if (head.status === 101) break
    if (head.status >= 200) finals++
  }
  return { responses, problem: undefined }
}

type Head = Omit<ParsedResponse, 'body' | 'complete' | 'framing'>

function parseHead(text: string): Head | string {
  const [first = '', ...lines] = text.split('\r\n')
  const line = statusLine.exec(first)
  if (!line) return `status line ${JSON.stringify(first)}`
  const fields = readFields(lines)
  if (typeof fields === 'string') return fields
  const [, version = '', status = '', reason = ''] = line
  return { status: Number(status), reason, version, ...fields }
}

function framingOf(head: Head, method: string): ParsedResponse['framing'] | undefined {
  const lengths = head.all('content-length')
  const codings = head.all('transfer-encoding')
  if (lengths.length > 1 || codings.length > 1 || lengths.length + codings.length > 1)
    return undefined
  if (lengths[0] !== undefined && !/^\d{1,15}$/.test(lengths[0])) return undefined
  if (codings[0] !== undefined && codings[0].toLowerCase() !== 'chunked') return undefined
  // RFC 9112 section 6.3
  const { status } = head
  if (method === 'HEAD' || status < 200 || status === 204 || status === 304) return 'none'
  if (codings.length > 0) return 'chunked'
  return lengths.length > 0 ? 'length' : 'close'
}

function readBody(
  rest: Buffer,
  framing: ParsedResponse['framing'],
  { head, closed }: { head: Head; closed: boolean },
): { body: Buffer; complete: boolean; next: number | undefined } {
  if (framing === 'none') return { body: Buffer.alloc(0), complete: true, next: 0 }
  if (framing === 'close') return { body: rest, complete: closed, next: rest.length }
  if (framing === 'chunked') return readChunks(rest)
  const length = Number(head.header('content-length'))
  const body = rest.subarray(0, length)
  return { body, complete: body.length === length, next: body.length }
}

function readChunks(rest: Buffer): { body: Buffer; complete: boolean; next: number | undefined } {
  const pieces: Buffer[] = []
  let at = 0
  const unfinished = () => ({ body: Buffer.concat(pieces), complete: false, next: rest.length })
  const bad = () => ({ body: Buffer.concat(pieces), complete: false, next: undefined })
  for (;;) {
    const end = rest.indexOf('\r\n', at)
    if (end < 0) return unfinished()
    const size = rest.toString('latin1', at, end)
    if (!/^[0-9a-fA-F]{1,8}$/.test(size)) return bad()
    const length = Number.parseInt(size, 16)
    at = end + 2
    if (length === 0) break
    pieces.push(rest.subarray(at, at + length))
    if (rest.length < at + length + 2) return unfinished()
    if (rest.toString('latin1', at + length, at + length + 2) !== '\r\n') return bad()
    at += length + 2
  }
  for (;;) {
    const end = rest.indexOf('\r\n', at)
    if (end < 0) return unfinished()
    const isLast = end === at
    at = end + 2
    if (isLast) return { body: Buffer.concat(pieces), complete: true, next: at }
  }
}

function quote(raw: Buffer, at: number): string {
  return JSON.stringify(raw.toString('latin1', at, at + 200))
}
