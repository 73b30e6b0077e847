/** Refuses authenticated callers an operation that is switched off or gone; this costs no quota and involves no backend. */
import type { Caller } from '../rules/credentials.ts'
import { passesFromMs } from '../rules/deprecation.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import type { Judged } from './exchange.ts'

const REMOVED = refuse('operation_removed')

/** epochMs: Unix time in ms. */
export function createCheckDeprecation(epochMs: () => number) {
  return function checkDeprecation({ route }: Judged, { clientId }: Caller): Refusal | undefined {
    if (route?.withdrawal === undefined) return undefined
    const nowMs = epochMs()
    const fromMs = passesFromMs(route.withdrawal, clientId, nowMs)
    if (fromMs <= nowMs) return undefined
    if (fromMs === Infinity) return REMOVED
    const retryAfterSeconds = Math.ceil((fromMs - nowMs) / 1000)
    return refuse('operation_in_brownout', {
      detail: `Retry in ${retryAfterSeconds} s.`,
      retryAfterSeconds,
    })
  }
}
