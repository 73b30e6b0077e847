/** Makes a failing script of steps shorter as long as it goes on failing (delta debugging), so that it can be kept in a table. */
import type { Step } from './grammar.ts'

/** Removes lines and pauses, for about that long. */
export async function shrink(
  steps: readonly Step[],
  fails: (steps: readonly Step[]) => Promise<boolean>,
  forMs = 15_000,
): Promise<readonly Step[]> {
  let best: readonly Step[] = steps.flatMap((step): readonly Step[] =>
    typeof step === 'string' ? step.split(/(?<=\n)/).filter((line) => line !== '') : [step],
  )
  const untilMs = Date.now() + forMs
  const attempt = async (shorter: readonly Step[]): Promise<boolean> => {
    if (Date.now() > untilMs || !(await fails(joined(shorter)))) return false
    best = [...shorter]
    return true
  }
  await attempt(best.filter((step) => typeof step === 'string'))
  for (let size = best.length >> 1; size >= 1; size >>= 1)
    for (let from = best.length - size; from >= 0; from -= size)
      await attempt([...best.slice(0, from), ...best.slice(from + size)])
  return joined(best)
}

function joined(steps: readonly Step[]): Step[] {
  const whole: Step[] = []
  for (const step of steps) {
    const last = whole.at(-1)
    if (typeof step === 'string' && typeof last === 'string') whole[whole.length - 1] = last + step
    else whole.push(step)
  }
  return whole
}
