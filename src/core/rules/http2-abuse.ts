/** Names what HTTP/2 clients may not do, and bounds the bytes they may send: any flood of frames that are no requests exceeds that bound. */

/**
 * flood: more bytes came than the requests account for, or bodies in pieces of a few bytes.
 * frames: HTTP/2 itself or Node's bounds forbid the frames.
 * reset: a request was cancelled before it could begin.
 * stalled: an answer was cut off, since it was read too slowly.
 * held: too much waits for clients, and most of it on this connection.
 * refused: too many requests in a row were refused.
 */
export const http2Abuses = ['flood', 'frames', 'reset', 'stalled', 'held', 'refused'] as const
export type Http2Abuse = (typeof http2Abuses)[number]

const AT_ONCE_BYTES = 64 * 1024
const A_SECOND_BYTES = 16 * 1024
/** Bytes of a body that a client sends before it notices that nobody wants it: the window of a stream (RFC 9113 6.9.2). */
const UNREAD_BODY_BYTES = 65_535
/** Bytes of acknowledging frames for each byte of an answer. */
const ACKNOWLEDGED_SHARE = 1 / 16

/** bodyBytes: of bodies received. headBytes: size of the largest head of a request. */
export function allowedBytes(
  use: Readonly<Record<'ageMs' | 'streams' | 'bodies' | 'bodyBytes' | 'writtenBytes', number>>,
  headBytes: number,
): number {
  const { ageMs, streams, bodies, bodyBytes, writtenBytes } = use
  return (
    AT_ONCE_BYTES +
    (A_SECOND_BYTES * ageMs) / 1000 +
    headBytes * streams +
    UNREAD_BODY_BYTES * bodies +
    // The overhead of frames of a few bytes is as large again.
    2 * bodyBytes +
    writtenBytes * ACKNOWLEDGED_SHARE
  )
}
