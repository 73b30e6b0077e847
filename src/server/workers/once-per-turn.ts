/** Passes a worker's notices on to the others once per turn of the event loop. */
import type { ClientNotice } from './messages.ts'

export function oncePerTurn(
  notify: (notices: readonly ClientNotice[]) => void,
): (notice: ClientNotice) => void {
  let waiting: ClientNotice[] = []
  return (told) => {
    if (waiting.push(told) > 1) return
    setImmediate(() => {
      notify(waiting)
      waiting = []
    })
  }
}
