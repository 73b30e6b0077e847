/** How slowly a client may send or read: it has a credit of bytes, which falls with the time in which it is waited for and grows with what it moves. */

/** How long nothing at all may move at first. */
const GRACE_SECONDS = 5
/**
 * The kernel takes and hands over in large steps, so a client that is fast enough may show nothing for many seconds. Who has
 * stopped is found out after this much divided by the rate: 32 s with 512 bytes a second.
 */
const MOST_BYTES = 16 * 1024

/** rateBytes: a second. */
export const initialCredit = (rateBytes: number): number => GRACE_SECONDS * rateBytes

/** Below zero the client is too slow. waitedMs: for the client, of the time in which movedBytes moved. */
export function creditAfter(
  creditBytes: number,
  {
    rateBytes,
    movedBytes,
    waitedMs,
  }: { readonly rateBytes: number; readonly movedBytes: number; readonly waitedMs: number },
): number {
  const mostBytes = Math.max(MOST_BYTES, initialCredit(rateBytes))
  return Math.min(mostBytes, creditBytes + movedBytes) - (rateBytes * waitedMs) / 1000
}
