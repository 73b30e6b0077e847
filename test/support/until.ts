import { setTimeout as sleep } from 'node:timers/promises'

/** Waits until the condition holds, asking every 10 ms; throws after timeoutMs. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what = condition.toString(),
  timeoutMs = 60_000,
): Promise<void> {
  const deadlineMs = performance.now() + timeoutMs
  while (!(await condition())) {
    if (performance.now() > deadlineMs)
      throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`)
    await sleep(10)
  }
}
