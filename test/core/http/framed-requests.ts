/** What two readers make of the same bytes: ours, and the parser of Node.js (llhttp), which the gateway does not use. */
import { createRequire } from 'node:module'
import { checkFraming } from '../../../src/core/rules/framing.ts'
import { checkTarget } from '../../../src/core/rules/target.ts'
import { isRefusal } from '../../../src/core/rules/refusals.ts'
import { requestSyntax } from '../../../src/core/http/request-head.ts'
import { MessageReader } from '../../../src/core/http/message-reader.ts'

export const HEAD_BYTES = 16_384

export interface Framed {
  /** Requests that were read whole, each as text: request line, fields, body. */
  readonly requests: string[]
  /** Why no more were read; undefined: more could come. */
  end: string | undefined
}

const textOf = (line: string, fields: readonly string[], body: string): string =>
  [line, ...fields, body].join('|')

const limits = { headerCount: 100, headerBytes: HEAD_BYTES, bodyBytes: 1e9 }

export function readByUs(pieces: readonly Buffer[]): Framed {
  const framed: Framed = { requests: [], end: undefined }
  const reader = new MessageReader(HEAD_BYTES, requestSyntax)
  let body = ''
  for (const bytes of pieces) {
    reader.add(bytes)
    for (let found = reader.next(); found !== 'more'; found = reader.next()) {
      const { head } = reader
      if (found === 'fault') framed.end = reader.fault.cause ?? ''
      else if (found === 'piece') body += reader.piece.toString('latin1')
      else if (found === 'head' && head !== undefined) {
        body = ''
        const framing = checkFraming({ ...head, httpVersion: head.httpVersion }, limits)
        if (isRefusal(framing)) framed.end = framing.code
        else {
          const target = { method: head.method, url: head.url }
          // Refused before anything is forwarded, and nothing behind it is read.
          if (isRefusal(checkTarget(target, framing.host, 'http', 8_192))) framed.end = 'target'
          reader.frame(framing)
        }
      } else if (found === 'end' && head !== undefined) {
        const { method, url, httpVersion, rawHeaders, persists } = head
        framed.requests.push(textOf(`${method} ${url} ${httpVersion}`, rawHeaders, body))
        if (!persists || rawHeaders.some((name) => name.toLowerCase() === 'upgrade'))
          framed.end = 'last'
      }
      if (framed.end !== undefined) return framed
    }
  }
  return framed
}

interface NodeParser {
  initialize(type: number, resource: object, maxHeaderSize: number, lenient: number): void
  execute(bytes: Buffer): number | Error
  [callback: number]: unknown
}

// Undocumented, and with a warning: for this comparison alone.
const { HTTPParser, methods } = createRequire(import.meta.url)('node:_http_common') as {
  HTTPParser: { new (): NodeParser; REQUEST: number }
  methods: string[]
}
const [ON_HEADERS, ON_HEADERS_COMPLETE, ON_BODY, ON_MESSAGE_COMPLETE] = [1, 2, 3, 4] as const

export function readByNode(pieces: readonly Buffer[]): Framed {
  const framed: Framed = { requests: [], end: undefined }
  const parser = new HTTPParser()
  parser.initialize(HTTPParser.REQUEST, {}, 1_000_000, 0)
  let line = ''
  let fields: string[] = []
  let body = ''
  let url = ''
  let isHead = true
  parser[ON_HEADERS] = (more: string[], part: string) => {
    // Fields behind a body are trailers, which we drop.
    if (!isHead) return
    fields.push(...more)
    url += part
  }
  parser[ON_HEADERS_COMPLETE] = (
    ...[major, minor, rest, method, rawUrl]: [number, number, string[] | undefined, number, string]
  ) => {
    fields.push(...(rest ?? []))
    isHead = false
    line = `${methods[method]} ${rawUrl || url} ${major}.${minor}`
    return 0
  }
  parser[ON_BODY] = (bytes: Buffer) => void (body += bytes.toString('latin1'))
  parser[ON_MESSAGE_COMPLETE] = () => {
    framed.requests.push(textOf(line, fields, body))
    fields = []
    body = url = ''
    isHead = true
  }
  for (const bytes of pieces) {
    const result = parser.execute(bytes)
    if (result instanceof Error) {
      framed.end = (result as Error & { code?: string }).code ?? result.message
      return framed
    }
  }
  return framed
}

/** Returns a text when we read a request that Node.js reads otherwise or not at all; undefined: all is well. */
export function difference(bytes: Buffer): string | undefined {
  const ours = readByUs([bytes])
  const theirs = readByNode([bytes])
  const at = ours.requests.findIndex((text, index) => text !== theirs.requests[index])
  if (at === -1) return undefined
  const shown = JSON.stringify(bytes.toString('latin1'))
  const [our, their] = [ours.requests[at], theirs.requests[at] ?? theirs.end]
  return `${shown}\nours ${JSON.stringify(our)}\nNode ${JSON.stringify(their)}`
}
