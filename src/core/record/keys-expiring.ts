/** Counts the keys that expire soon, once for each configuration and hour, as there may be millions. */
import type { Clients } from '../../config/config.ts'
import { EXPIRING_MS } from '../../config/clients/warnings.ts'
import { gauge, type Family } from './family.ts'

type Countable = Pick<Clients, 'countEnding'>

const HOUR_MS = 60 * 60 * 1000

/** clients: those of the configuration in force. */
export function keysExpiringFamily(clients: () => Countable | undefined): Family {
  let counted: { of: Countable; hour: number; count: number } | undefined
  return gauge.max('tollgate_keys_expiring', 'Keys that end within 30 days.', () => {
    const of = clients()
    if (of === undefined) return 0
    const nowMs = Date.now()
    const hour = Math.floor(nowMs / HOUR_MS)
    if (counted?.of !== of || counted.hour !== hour)
      counted = { of, hour, count: of.countEnding(nowMs, nowMs + EXPIRING_MS) }
    return counted.count
  })
}
