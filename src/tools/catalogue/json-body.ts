/** Reads a request body as JSON, with integers as bigints that keep every digit. */
import type { IncomingMessage } from 'node:http'
import { MIMEType } from 'node:util'
import type { Fault } from './answer.ts'
import { parseInt64 } from './parameters.ts'

const maxBodyBytes = 1024 * 1024
/** How much of an oversized body is read and dropped, so that its sender still reads the 413. */
const maxDiscardedBytes = 8 * maxBodyBytes

/**
 * Returns the parsed value, or a fault. Each number spelled as an int64 becomes a bigint, any other stays a
 * number. Rejects only if the client leaves before the end of its body.
 */
export async function readJsonBody(request: IncomingMessage): Promise<{ json: unknown } | Fault> {
  if (hasNoBody(request)) return { fault: 'invalid_body', detail: 'a JSON object is required' }
  if (!isPlainJson(request)) return { fault: 'unsupported_media_type' }
  const bytes = await readBytes(request)
  if (bytes === undefined) return { fault: 'body_too_large', headers: { connection: 'close' } }
  let text: string
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return { fault: 'invalid_body', detail: 'it must be UTF-8' }
  }
  try {
    return { json: JSON.parse(text, exactIntegers) as unknown }
  } catch {
    return { fault: 'invalid_body', detail: 'it must be JSON of reasonable depth' }
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

/** The whole body, or undefined if it is over the limit. */
async function readBytes(request: IncomingMessage): Promise<Buffer | undefined> {
  let chunks: Buffer[] = []
  let receivedBytes = 0
  const parts = request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>
  for await (const chunk of parts) {
    receivedBytes += chunk.byteLength
    if (receivedBytes <= maxBodyBytes) chunks.push(chunk)
    else chunks = []
    if (receivedBytes > maxDiscardedBytes) break
  }
  return receivedBytes <= maxBodyBytes ? Buffer.concat(chunks) : undefined
}

/** JSON.parse rounds beyond 2^53, but hands its reviver the digits as they were sent (Node 22 and later). */
function exactIntegers(_key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== 'number' || context?.source === undefined) return value
  return parseInt64(context.source) ?? value
}
