/** Reads the JSON body of a request, up to a bounded size. */
import type { IncomingMessage } from 'node:http'
import { refusalKinds } from '../core/rules/refusals.ts'
import { fault, invalidRequest, type Answer } from './answers.ts'

const MOST_BYTES = 64 * 1024

const notJson = invalidRequest('The body is not JSON.')
const tooLarge = fault({ code: 'body_too_large', ...refusalKinds.body_too_large })
/** A page of another site can send any other type without a preflight. */
const otherType = fault({
  code: 'unsupported_media_type',
  status: 415,
  message: 'Send the body as Content-Type: application/json.',
})

const answers: ReadonlySet<unknown> = new Set([notJson, tooLarge, otherType])
export const isAnswer = (read: unknown): read is Answer => answers.has(read)

export const hasBody = ({ headers }: IncomingMessage): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0

/** Whether a body is a JSON object. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Returns undefined where there is no body, and an Answer (see isAnswer) where it is refused. Never rejects. */
export async function readJson(request: IncomingMessage): Promise<unknown> {
  const { 'content-type': type = '', 'content-encoding': encoding } = request.headers
  if (!hasBody(request)) return undefined
  if (!/^application\/json\s*(;|$)/i.test(type) || encoding !== undefined) return otherType
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    // The body is read to its end, within the request's time limit: unread data would cut the answer off.
    for await (const chunk of request as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes <= MOST_BYTES) chunks.push(chunk)
    }
    if (bytes > MOST_BYTES) return tooLarge
    return JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks)))
  } catch {
    return notJson
  }
}
