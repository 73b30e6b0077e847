/** Reads a request body as JSON, with integers as bigints that keep every digit. */
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { MIMEType } from 'node:util'
import { Fault } from './answer.ts'
import { parseInt64 } from './parameters.ts'

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
