/** Passes a worker's notices on to the others once per turn of the event loop. */
import type { ClientNotice } from './messages.ts'

export function oncePerTurn(
  notify: (notices: readonly ClientNotice[]) => void,
): (notice: ClientNotice) => void {
  let waiting: ClientNotice[] = []
  return (notice) => {
    if (waiting.push(notice) > 1) return
    setImmediate(() => {
      notify(waiting)
      waiting = []
    })
  }
}
