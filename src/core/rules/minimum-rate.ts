/** Decides how slowly a client may send or read: its credit of bytes falls while the gateway waits for it, and grows with each byte that moves. */

/** How long a client may move nothing at first. */
const GRACE_SECONDS = 5
/**
 * Largest credit. The kernel moves bytes in large steps, so a client that is fast enough may show nothing for many seconds. A
 * client that has stopped is noticed after this much divided by the rate: 32 s at 512 bytes a second.
 */
const MOST_BYTES = 16 * 1024

/** rateBytes: bytes a second. */
export const initialCredit = (rateBytes: number): number => GRACE_SECONDS * rateBytes

/** The next credit; below zero the client is too slow. waitedMs: how long the gateway waited for the client while movedBytes moved. */
export function creditAfter(
  creditBytes: number,
  rateBytes: number,
  movedBytes: number,
  waitedMs: number,
): number {
  const mostBytes = Math.max(MOST_BYTES, initialCredit(rateBytes))
  return Math.min(mostBytes, creditBytes + movedBytes) - (rateBytes * waitedMs) / 1000
}
