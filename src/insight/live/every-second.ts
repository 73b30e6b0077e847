/** A timer that goes with the wall clock and keeps no process alive. */

/** A timer may come a little before its time. */
const MARGIN_MS = 2

/** onSecond: told the latest second that has been over for lateMs, as Unix time; a busy process may be told late, and then passes over some. */
export function everySecond(onSecond: (second: number) => void, lateMs = 0): () => void {
  let timer: NodeJS.Timeout
  const wait = (): void => {
    const intoMs = (Date.now() - lateMs) % 1000
    timer = setTimeout(tell, 1000 - intoMs + MARGIN_MS).unref()
  }
  const tell = (): void => {
    onSecond(Math.floor((Date.now() - lateMs) / 1000) - 1)
    wait()
  }
  wait()
  return () => clearTimeout(timer)
}
