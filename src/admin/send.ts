/** Writes answers no faster than the reader takes them, and cuts off a reader that has stopped. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import type { Answer, BodyStream } from './answers.ts'
import { hasBody } from './operation.ts'

/** A reader that takes nothing for this long, while data waits, is cut off. */
const STALLED_MS = 10_000

interface SendOptions {
  readonly made: Answer
  /** Called when a body fails midway; the reader is then cut off. */
  onError(error: unknown): void
  readonly stalledMs?: number
}

/** Resolves when the whole answer is with the connection, or the reader is gone. */
export async function send(
  request: IncomingMessage,
  response: ServerResponse,
  { made, onError, stalledMs = STALLED_MS }: SendOptions,
): Promise<void> {
  const { body } = made
  response.setTimeout(stalledMs, () => {
    if (response.writableLength > 0) response.destroy()
  })
  response.writeHead(made.status, {
    'Content-Type': made.contentType,
    ...(typeof body !== 'function' && { 'Content-Length': Buffer.byteLength(body) }),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'Cross-Origin-Resource-Policy': 'same-origin',
    ...made.fields,
    // An unread body must not be taken for the next request.
    ...(hasBody(request) && { Connection: 'close' }),
  })
  if (request.method === 'HEAD') response.end()
  else if (typeof body !== 'function') response.end(body)
  else await sendStream(response, body).catch(onError)
}

/** A failure cuts the connection off, as a partial answer must not look complete. */
async function sendStream(response: ServerResponse, body: BodyStream): Promise<void> {
  // Whoever has left would be kept as a reader for ever.
  if (response.destroyed) return
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  response.flushHeaders()
  await pipeline(body(gone.signal), response).catch((error: NodeJS.ErrnoException) => {
    const isReaderGone = error.code === 'ERR_STREAM_PREMATURE_CLOSE' || error.name === 'AbortError'
    if (!isReaderGone) throw error
  })
}
