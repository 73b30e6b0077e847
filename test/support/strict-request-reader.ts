/** Reads HTTP/1.1 requests from bytes and refuses everything that two readers could understand differently (RFC 9112). */
import type { RecordedRequest } from './raw-backend.ts'

export interface RequestReader {
  /** The first thing that was ambiguous or not HTTP/1.1; nothing after it is parsed. */
  readonly problem: string | undefined
  push(chunk: Buffer): void
  /** The peer closed: a request cut off in the middle is a problem. */
  end(): void
}

const requestLine = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([\x21-\x7e]+) HTTP\/(1\.[01])$/
const fieldLine = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)$/

type Head = Omit<RecordedRequest, 'body'>

class Ambiguous extends Error {}

export function readRequests(
  connection: number,
  tell: { head: (request: RecordedRequest) => void; request: (request: RecordedRequest) => void },
): RequestReader {
  let pending: Buffer = Buffer.alloc(0)
  let problem: string | undefined
  let head: Head | undefined
  let body: Buffer[] = []
  let missingBytes = 0
  let inTrailer = false

  const finish = (): void => {
    if (!head) return
    const request = { ...head, body: Buffer.concat(body) }
    head = undefined
    tell.request(request)
  }
  const takeLine = (): string | undefined => {
    const end = pending.indexOf('\r\n')
    const line = end < 0 ? undefined : pending.toString('latin1', 0, end)
    if ((line ?? pending.toString('latin1')).replace(/\r$/, '').match(/[\r\n]/))
      throw new Ambiguous('a bare CR or LF')
    if (line !== undefined) pending = pending.subarray(end + 2)
    return line
  }
  const takeHead = (): boolean => {
    const end = pending.indexOf('\r\n\r\n')
    if (end < 0) return false
    head = parseHead(pending.toString('latin1', 0, end), connection)
    pending = pending.subarray(end + 4)
    body = []
    inTrailer = false
    missingBytes = head.framing === 'length' ? Number(head.header('content-length')) : 0
    tell.head({ ...head, body: Buffer.alloc(0) })
    if (head.framing !== 'chunked' && missingBytes === 0) finish()
    return true
  }
  const takeBody = (): boolean => {
    if (missingBytes > 0) {
      const piece = pending.subarray(0, missingBytes)
      body.push(piece)
      missingBytes -= piece.length
      pending = pending.subarray(piece.length)
      if (missingBytes === 0 && head?.framing === 'length') finish()
      return piece.length > 0
    }
    return takeChunkLine()
  }
  // Between chunks: the CRLF after a chunk, the size line, or the trailer section after the last chunk.
  let afterChunk = false
  const takeChunkLine = (): boolean => {
    const line = takeLine()
    if (line === undefined) return false
    if (afterChunk) {
      if (line !== '') throw new Ambiguous(`chunk longer than its size: ${JSON.stringify(line)}`)
      afterChunk = false
    } else if (inTrailer) {
      if (line === '') finish()
      else if (!fieldLine.test(line)) throw new Ambiguous(`trailer line ${JSON.stringify(line)}`)
    } else {
      if (!/^[0-9a-fA-F]{1,8}$/.test(line))
        throw new Ambiguous(`chunk size ${JSON.stringify(line)}`)
      missingBytes = Number.parseInt(line, 16)
      inTrailer = missingBytes === 0
      afterChunk = !inTrailer
    }
    return true
  }
  const attempt = (work: () => void): void => {
    try {
      if (problem === undefined) work()
    } catch (error) {
      if (!(error instanceof Ambiguous)) throw error
      problem = error.message
    }
  }
  return {
    get problem() {
      return problem
    },
    push: (chunk) =>
      attempt(() => {
        pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
        while (pending.length > 0 && (head ? takeBody() : takeHead()));
      }),
    end: () =>
      attempt(() => {
        if (head || pending.length > 0) throw new Ambiguous('closed in the middle of a request')
      }),
  }
}

function parseHead(text: string, connection: number): Head {
  const [first = '', ...lines] = text.split('\r\n')
  const line = requestLine.exec(first)
  if (!line) throw new Ambiguous(`request line ${JSON.stringify(first)}`)
  const [, method = '', target = '', version = ''] = line
  const fields = readFields(lines)
  if (typeof fields === 'string') throw new Ambiguous(fields)
  return { method, target, version, ...fields, framing: framingOf(fields.all), connection }
}

/** Header fields as they came, flat, and by their names in any case; or what is no field. */
export function readFields(lines: readonly string[]) {
  const headers: string[] = []
  for (const each of lines) {
    const field = fieldLine.exec(each)
    if (!field) return `field line ${JSON.stringify(each)}`
    headers.push(field[1] ?? '', (field[2] ?? '').replace(/[ \t]+$/, ''))
  }
  const all = (name: string): string[] =>
    headers.filter((_, at) => at % 2 === 1 && headers[at - 1]?.toLowerCase() === name.toLowerCase())
  const header = (name: string): string | undefined => all(name)[0]
  return { headers, all, header }
}

function framingOf(all: (name: string) => string[]): RecordedRequest['framing'] {
  const lengths = all('content-length')
  const codings = all('transfer-encoding')
  if (all('host').length !== 1) throw new Ambiguous(`${all('host').length} Host fields`)
  if (lengths.length > 1) throw new Ambiguous('more than one Content-Length')
  if (lengths.length > 0 && codings.length > 0)
    throw new Ambiguous('both Content-Length and Transfer-Encoding')
  if (lengths[0] !== undefined && !/^\d{1,15}$/.test(lengths[0]))
    throw new Ambiguous(`Content-Length ${JSON.stringify(lengths[0])}`)
  if (codings.length > 1 || (codings[0] !== undefined && codings[0] !== 'chunked'))
    throw new Ambiguous(`Transfer-Encoding ${JSON.stringify(codings)}`)
  return codings.length > 0 ? 'chunked' : lengths.length > 0 ? 'length' : 'none'
}
