/** The time that this process has had: it stands still while the process waits for the processor. For bounds that code keeps with timers of this process. */

const STEP_MS = 10
let passedMs = 0
let lastMs = performance.now()

function step(): void {
  const nowMs = performance.now()
  passedMs += Math.min(nowMs - lastMs, 2 * STEP_MS)
  lastMs = nowMs
}
setInterval(step, STEP_MS).unref()

export function ownMs(): number {
  step()
  return passedMs
}
