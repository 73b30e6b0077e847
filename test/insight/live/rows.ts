/** Seconds and rows of a tally, as tests give them. */
import type { Second } from '../../../src/insight/live/second.ts'
import type { TallyRow } from '../../../src/core/record/tally.ts'

export const row = (client: string, more: Partial<TallyRow> = {}): TallyRow => ({
  client,
  key: `${client}-1`,
  plan: 'pro',
  dayIndex: 0,
  admitted: 1,
  refusedMinute: 0,
  refusedDay: 0,
  refusedBan: 0,
  refusedOther: 0,
  requests: 1,
  answered: 1,
  totalMsSum: 2,
  totalMsMax: 2,
  minute: { used: 1, limit: 10 },
  day: { used: 1, limit: 100 },
  lastUsedMs: 1_000,
  ...more,
})

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
  ...more,
})
