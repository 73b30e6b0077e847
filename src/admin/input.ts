/** Checks what an operation is asked, and reads the JSON body of a request up to a bounded size. */
import type { IncomingMessage } from 'node:http'
import type { z } from 'zod'
import { Refused } from './faults.ts'

const MOST_BYTES = 64 * 1024

export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** Throws Refused if the value is another, with these words and what the schema says of the faulty field. */
export function checked<Checked>(
  value: unknown,
  schema: z.ZodType<Checked>,
  words: string,
): Checked {
  const read = schema.safeParse(value)
  if (read.success) return read.data
  const [{ path, message } = { path: [], message: '' }] = read.error.issues
  const why = path.length === 0 ? '' : ` "${String(path[0])}" ${message}.`
  throw new Refused('invalid_request', { message: `${words}${why}` })
}

/** Resolves with undefined where there is no body; rejects with Refused. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  const { 'content-type': type = '', 'content-encoding': encoding } = request.headers
  if (!hasBody(request)) return undefined
  // A page of another site can send any other type without a preflight.
  if (!/^application\/json\s*(;|$)/i.test(type) || encoding !== undefined)
    throw new Refused('unsupported_media_type')
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    // The body is read to its end, within the request's time limit: unread data would cut the answer off.
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes <= MOST_BYTES) chunks.push(chunk)
    }
    if (bytes <= MOST_BYTES)
      return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)))
  } catch {
    throw new Refused('invalid_request', { message: 'The body is not JSON.' })
  }
  throw new Refused('body_too_large')
}
