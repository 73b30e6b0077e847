/** Writes answers: no faster than their reader takes them, and to nobody who has stopped reading. */
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Answer, BodyStream } from './answers.ts'
import { hasBody } from './read-json.ts'

/** A reader that takes nothing of what waits for it for as long is cut off. */
const STALLED_MS = 10_000

interface SendOptions {
  readonly made: Answer
  /** Told when a body breaks off; then the reader is cut off. */
  onError(error: unknown): void
  readonly stalledMs?: number
}

/** Resolves when all of it was given to the connection, or the reader is gone. */
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
    // A body that nobody has read must not be taken for a request.
    ...(hasBody(request) && { Connection: 'close' }),
  })
  if (request.method === 'HEAD') response.end()
  else if (typeof body !== 'function') response.end(body)
  else await sendStream(response, body).catch(onError)
}

async function sendStream(response: ServerResponse, body: BodyStream): Promise<void> {
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  response.flushHeaders()
  try {
    for await (const piece of body(gone.signal)) {
      if (!response.write(piece)) await once(response, 'drain', { signal: gone.signal })
      if (gone.signal.aborted) break
    }
    response.end()
  } catch (error) {
    // It must not look as if it were all.
    response.destroy()
    if (!gone.signal.aborted) throw error
  }
}
