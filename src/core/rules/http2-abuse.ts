/** What clients of HTTP/2 may not do, and how many bytes they may send: floods of frames that are no requests go beyond, whatever their kind. */

/**
 * flood: more bytes than its requests account for, or bodies in pieces of a few bytes. frames: what HTTP/2 itself or Node's bounds forbid. reset: a request that was
 * taken back before it could begin. stalled: an answer was cut off, as it was read too slowly. held: most of what waits for
 * clients waits on this connection, and it is too much. refused: too many requests in a row were refused.
 */
export const http2Abuses = ['flood', 'frames', 'reset', 'stalled', 'held', 'refused'] as const
export type Http2Abuse = (typeof http2Abuses)[number]

const AT_ONCE_BYTES = 64 * 1024
const A_SECOND_BYTES = 16 * 1024
/** What a client sends of a body before it hears that nobody wants it: the window of a stream (RFC 9113 6.9.2). */
const UNREAD_BODY_BYTES = 65_535
/** Frames that acknowledge, for each byte of an answer. */
const ACKNOWLEDGED_SHARE = 1 / 16

export interface Http2Use {
  readonly ageMs: number
  readonly streams: number
  readonly bodies: number
  /** Bytes of bodies that have come. */
  readonly bodyBytes: number
  readonly writtenBytes: number
}

/** headBytes: of the largest head of a request. */
export function allowedBytes(
  { ageMs, streams, bodies, bodyBytes, writtenBytes }: Http2Use,
  headBytes: number,
): number {
  return (
    AT_ONCE_BYTES +
    (A_SECOND_BYTES * ageMs) / 1000 +
    headBytes * streams +
    UNREAD_BODY_BYTES * bodies +
    // Frames of a few bytes are as large again.
    2 * bodyBytes +
    writtenBytes * ACKNOWLEDGED_SHARE
  )
}
