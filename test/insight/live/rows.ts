/** Seconds and rows of a tally, as tests give them. */
import type { Second } from '../../../src/insight/live/second.ts'
import { newRow, type TallyRow } from '../../../src/core/record/tally.ts'

const common = {
  admitted: 1,
  requests: 1,
  answered: 1,
  totalMsSum: 2,
  totalMsMax: 2,
  minuteUsed: 1,
  minuteLimit: 10,
  dayUsed: 1,
  dayLimit: 100,
  lastUsedMs: 1_000,
}

export const row = (client: string, more: Partial<TallyRow> = {}): TallyRow =>
  Object.assign(newRow({ clientId: client, keyId: `${client}-1`, plan: 'pro' }, 0), common, more)

export const second = (at: number, more: Partial<Second> = {}): Second => ({
  at,
  requests: 0,
  refused: { minute: 0, day: 0, ban: 0, other: 0 },
  gateway: [],
  backend: [],
  inFlight: 0,
  store: [],
  backends: [],
  rows: [],
  decisions: [],
  ...more,
})
