/**
 * A second opinion on what a backend has sent as its answer to one request (RFC 9112, read strictly): what the client is to
 * be given of it. Shares nothing with src.
 */
import { readChunked, fieldOf } from './message-syntax.ts'

/** How the backend leaves the connection behind its bytes. */
export type BackendEnd = 'keeps' | 'closes' | 'resets'

export interface AnswerReading {
  /** What the client may be given as a whole; undefined: nothing may look like a whole answer of the backend. */
  readonly whole:
    | { readonly status: number; readonly body: string; readonly fields: readonly string[] }
    | undefined
  /** The client must be given that: there is nothing in it to refuse. */
  readonly isSound: boolean
  /** More bytes may come. */
  readonly isUnfinished: boolean
}

/** Node's parser takes RTSP for HTTP, and 0.9 and 2.0 for versions of it, and does not say so. */
const statusLine = /^(HTTP\/1\.[01]|(?:HTTP|RTSP)\/(?:0\.9|1\.[01]|2\.0)) ([0-9]{3})(?: ([^\n]*))?$/
const BROKEN: AnswerReading = { whole: undefined, isSound: false, isUnfinished: false }
const UNFINISHED: AnswerReading = { ...BROKEN, isUnfinished: true }

/** Fields that are nobody's business but the client's. */
export const PASSED_ON = /^(?:x-(?:one|probe)|set-cookie$|content-type$)/i

interface Head {
  readonly isOld: boolean
  readonly status: number
  readonly lengths: readonly string[]
  readonly codings: readonly string[]
  /** Those that are passed on, as `name: value`. */
  readonly fields: readonly string[]
  /** Recipients may take it or refuse it. */
  readonly isDoubtful: boolean
}

export function readAnswer(text: string, isHead: boolean, end: BackendEnd): AnswerReading {
  let at = 0
  let isSound = end !== 'resets'
  for (;;) {
    // Empty lines in front may be passed over.
    for (; text[at] === '\r' || text[at] === '\n'; at++) isSound = false
    const headEnd = text.indexOf('\r\n\r\n', at)
    if (headEnd === -1) return UNFINISHED
    const head = readHead(text.slice(at, headEnd))
    if (head === undefined) return BROKEN
    at = headEnd + 4
    isSound &&= !head.isDoubtful
    const { status, lengths, codings } = head
    if (status >= 100 && status < 200) {
      if (status === 101) return BROKEN
      // An interim answer that nobody asked for may be taken for a fault, and has no body.
      if (status === 100 || lengths.length + codings.length > 0) isSound = false
      continue
    }
    if (status < 200 || status > 599) return BROKEN
    return readBody(text.slice(at), head, { isHead, end, isSound })
  }
}

function readHead(text: string): Head | undefined {
  const [first = '', ...lines] = text.split('\r\n')
  const line = statusLine.exec(first)
  if (!line) return undefined
  const [, version = '', status, reason] = line
  // Who reads heads without end is not told to; each engine has a bound of its own.
  let isDoubtful =
    reason === undefined ||
    /[^\t\x20-\x7e\x80-\xff]/.test(reason) ||
    !/^HTTP\/1\.[01]$/.test(version) ||
    lines.length > 900 ||
    text.length > 15_000
  const lengths: string[] = []
  const codings: string[] = []
  const fields: string[] = []
  for (const [index, each] of lines.entries()) {
    const field = fieldOf(each)
    if (field === undefined) {
      // RFC 9112 5.2: a folded line is refused or unfolded.
      if (!/^[ \t][\t\x20-\x7e\x80-\xff]*$/.test(each) || index === 0) return undefined
      isDoubtful = true
      continue
    }
    const name = field.name.toLowerCase()
    if (PASSED_ON.test(name)) fields.push(`${field.name}: ${field.value}`)
    if (name === 'content-length') lengths.push(field.value)
    if (name === 'transfer-encoding') codings.push(field.value)
    // Look-alikes, and white space behind what frames the message: legal, and taken for more by some.
    // An interim answer is not the last, whatever it says; some believe it.
    if (/^(?:proxy-)?connection$/.test(name) && status?.startsWith('1')) isDoubtful = true
    const isFraming = /^(?:content.length|transfer.encoding)$/.test(name)
    if (isFraming && (/[ \t]$/.test(each) || !name.includes('-'))) isDoubtful = true
  }
  const isOld = version !== 'HTTP/1.1'
  return { isOld, status: Number(status), lengths, codings, fields, isDoubtful }
}

function readBody(
  rest: string,
  { isOld, status, lengths, codings, fields }: Head,
  { isHead, end, isSound }: { isHead: boolean; end: BackendEnd; isSound: boolean },
): AnswerReading {
  const isAmbiguous =
    lengths.length + codings.length > 1 ||
    lengths.some((length) => !/^[0-9]{1,15}$/.test(length)) ||
    codings.some((coding) => coding.toLowerCase() !== 'chunked')
  const told = (body: string, surplus: string, isUnfinished = false): AnswerReading => ({
    whole: { status, body, fields },
    // What follows a whole answer is nobody's: the answer may have gone out by then, or not.
    // RFC 9112 6.1: chunks in HTTP/1.0 may be processed, or taken for faulty.
    isSound:
      isSound && !isUnfinished && surplus === '' && !isAmbiguous && !(isOld && codings.length > 0),
    isUnfinished,
  })
  // Its framing says nothing of bytes that follow: there are none.
  if (isHead || status === 204 || status === 304) return told('', rest)
  const sameLength = new Set(lengths).size === 1 && codings.length === 0
  if (isAmbiguous && !(sameLength && /^[0-9]{1,15}$/.test(lengths[0] ?? ''))) return BROKEN
  if (codings.length > 0) {
    const { content, end: bodyEnd, isUnfinished, isDoubtful } = readChunked(rest)
    if (bodyEnd === undefined) return isUnfinished ? UNFINISHED : BROKEN
    return told(content, isDoubtful ? 'doubt' : rest.slice(bodyEnd))
  }
  if (lengths.length > 0) {
    const length = Number(lengths[0])
    if (rest.length < length) return UNFINISHED
    return told(rest.slice(0, length), rest.slice(length))
  }
  if (end === 'resets') return BROKEN
  return told(rest, '', end === 'keeps')
}
