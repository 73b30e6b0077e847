/** A timer that follows the wall clock and keeps no process alive. */

/** Timers may fire a little early. */
const MARGIN_MS = 2

/** onSecond: called with the latest second (Unix time) that has been over for lateMs; a busy process may be late and skip some. */
export function everySecond(onSecond: (second: number) => void, lateMs = 0): () => void {
  let timer: NodeJS.Timeout
  const wait = (): void => {
    const intoMs = (Date.now() - lateMs) % 1000
    timer = setTimeout(report, 1000 - intoMs + MARGIN_MS).unref()
  }
  const report = (): void => {
    onSecond(Math.floor((Date.now() - lateMs) / 1000) - 1)
    wait()
  }
  wait()
  return () => clearTimeout(timer)
}
