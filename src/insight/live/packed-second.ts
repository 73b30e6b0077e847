/** A second as it is sent between processes: separate arrays of strings and numbers cost a tenth of objects. */
import type { TallyRow, SeenUse } from '../../core/record/tally.ts'
import type { Second } from './second.ts'

/** Plain data. */
export interface PackedSecond extends Omit<Second, 'rows'> {
  readonly texts: readonly string[]
  /** NaN: not known. */
  readonly numbers: Float64Array
}

const TEXTS = 3
const NUMBERS = 15

/** Numbers are written by index, so that no row allocates an array. */
export function packSecond({ rows, ...second }: Second): PackedSecond {
  const texts: string[] = []
  const numbers = new Float64Array(rows.length * NUMBERS)
  let at = 0
  for (const row of rows) {
    texts.push(row.client, row.key, row.plan)
    numbers[at++] = row.dayIndex
    numbers[at++] = row.admitted
    numbers[at++] = row.refusedMinute
    numbers[at++] = row.refusedDay
    numbers[at++] = row.refusedBan
    numbers[at++] = row.refusedOther
    numbers[at++] = row.requests
    numbers[at++] = row.answered
    numbers[at++] = row.totalMsSum
    numbers[at++] = row.totalMsMax
    numbers[at++] = row.minute?.used ?? NaN
    numbers[at++] = row.minute?.limit ?? NaN
    numbers[at++] = row.day?.used ?? NaN
    numbers[at++] = row.day?.limit ?? NaN
    numbers[at++] = row.lastUsedMs
  }
  return { ...second, texts, numbers }
}

export function unpackSecond({ texts, numbers, ...second }: PackedSecond): Second {
  const rows: TallyRow[] = []
  let at = 0
  const next = (): number => numbers[at++] ?? NaN
  for (let text = 0; text < texts.length; text += TEXTS)
    rows.push({
      client: texts[text] ?? '',
      key: texts[text + 1] ?? '',
      plan: texts[text + 2] ?? '',
      dayIndex: next(),
      admitted: next(),
      refusedMinute: next(),
      refusedDay: next(),
      refusedBan: next(),
      refusedOther: next(),
      requests: next(),
      answered: next(),
      totalMsSum: next(),
      totalMsMax: next(),
      minute: useOf(next(), next()),
      day: useOf(next(), next()),
      lastUsedMs: next(),
    })
  return { ...second, rows }
}

const useOf = (used: number, limit: number): SeenUse | undefined =>
  Number.isNaN(used) ? undefined : { used, limit }
