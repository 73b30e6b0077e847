/** What clients send: in an address the parameters of a page, and ids; in a body JSON, with integers as bigints that keep every digit. */
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { MIMEType } from 'node:util'
import { z } from 'zod'
import { Fault, parse } from './answer.ts'
import { petStatus } from './pet.ts'

const given = (name: string) => z.string({ error: `${name} must be given once` })

/** Unknown parameters are ignored, so that a cache buster or a newer client does no harm. */
const pageQuery = z.object({
  limit: given('limit')
    .regex(/^(?:[1-9]\d?|100)$/, 'limit must be an integer from 1 to 100')
    .transform(Number)
    .default(20),
  status: given('status').pipe(petStatus).optional(),
  /** Only animals with a greater id; 0 for the first page, since ids begin at 1. */
  cursor: given('cursor')
    .transform((text, context) => {
      const id = parseCursor(text)
      if (id === undefined)
        context.addIssue('cursor must be taken unchanged from the Link header of the page before')
      return id ?? 0n
    })
    .default(0n),
})
export type PageQuery = Readonly<z.infer<typeof pageQuery>>

export function parsePageQuery(query: string): PageQuery {
  const parameters = new URLSearchParams(query)
  const sent = Object.keys(pageQuery.shape).map((name) => {
    const all = parameters.getAll(name)
    return [name, all.length > 1 ? all : all[0]]
  })
  return parse(pageQuery, Object.fromEntries(sent), 'invalid_parameter')
}

/** The cursor of the next page, opaque to clients: the base64url form of the last id. */
export function cursorAfter(id: bigint): string {
  return Buffer.from(String(id)).toString('base64url')
}

function parseCursor(text: string): bigint | undefined {
  const id = parseInt64(Buffer.from(text, 'base64url').toString('latin1'))
  // Buffer skips what is not base64url; only a cursor that this service could have written is accepted.
  return id !== undefined && id > 0n && cursorAfter(id) === text ? id : undefined
}

export function parsePetId(text: string): bigint {
  const id = parseInt64(text)
  if (id !== undefined) return id
  throw new Fault('invalid_parameter', 'petId must be an integer in the range of int64')
}

/**
 * Parses an int64 from its digits, without a floating-point number in between.
 * The text must be a JSON integer (RFC 8259, section 6) without fraction or exponent, so that each
 * value has one spelling, except that `-0` is 0, too. Any other text, and any value outside
 * -2^63..2^63-1, gives undefined.
 */
function parseInt64(text: string): bigint | undefined {
  // The longest int64 has 19 digits and a sign; longer text is not converted.
  if (text.length > 20 || !/^-?(?:0|[1-9]\d*)$/.test(text)) return undefined
  const value = BigInt(text)
  return BigInt.asIntN(64, value) === value ? value : undefined
}

const maxBodyBytes = 1024 * 1024
/** How much of an oversized body is read and dropped, so that its sender still reads the 413. */
const maxDiscardedBytes = 8 * maxBodyBytes

/**
 * Resolves with the parsed value; each number spelled as an int64 becomes a bigint, any other stays a number.
 * Rejects with a Fault, or if the client leaves before the end of its body.
 */
export async function readJsonBody(request: IncomingMessage): Promise<unknown> {
  if (hasNoBody(request)) throw new Fault('invalid_body', 'a JSON object is required')
  if (!isPlainJson(request)) throw new Fault('unsupported_media_type')
  const bytes = await readBytes(request)
  if (!isUtf8(bytes)) throw new Fault('invalid_body', 'it must be UTF-8')
  try {
    return JSON.parse(new TextDecoder().decode(bytes), exactIntegers) as unknown
  } catch {
    throw new Fault('invalid_body', 'it must be JSON of reasonable depth')
  }
}

/** A request without body and Content-Type lacks its body; the media type is not at fault. */
function hasNoBody({ headers }: IncomingMessage): boolean {
  const length = headers['content-length'] ?? '0'
  const empty = headers['transfer-encoding'] === undefined && Number(length) === 0
  return empty && headers['content-type'] === undefined
}

function isPlainJson({ headers }: IncomingMessage): boolean {
  if ((headers['content-encoding'] ?? 'identity').toLowerCase() !== 'identity') return false
  try {
    const type = new MIMEType(headers['content-type'] ?? '')
    // RFC 8259, section 8.1: JSON between systems is UTF-8; a charset that says so is harmless.
    const charset = type.params.get('charset') ?? 'utf-8'
    return type.essence === 'application/json' && charset.toLowerCase() === 'utf-8'
  } catch {
    return false
  }
}

async function readBytes(request: IncomingMessage): Promise<Buffer> {
  let chunks: Buffer[] = []
  let receivedBytes = 0
  const parts = request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>
  for await (const chunk of parts) {
    receivedBytes += chunk.byteLength
    if (receivedBytes <= maxBodyBytes) chunks.push(chunk)
    else chunks = []
    if (receivedBytes > maxDiscardedBytes) break
  }
  if (receivedBytes <= maxBodyBytes) return Buffer.concat(chunks)
  throw new Fault('body_too_large', undefined, { connection: 'close' })
}

/** JSON.parse rounds beyond 2^53, but hands its reviver the digits as they were sent (Node 22 and later). */
function exactIntegers(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== 'number' || context?.source === undefined) return value
  return parseInt64(context.source) ?? value
}
