/** A second as it is sent between processes: separate arrays of strings and numbers cost a tenth of objects. */
import { rowNumbers, TallyRow, type SeenUse } from '../../core/record/tally.ts'
import type { Second } from './second.ts'

/** Plain data. */
export interface PackedSecond extends Omit<Second, 'rows'> {
  readonly texts: readonly string[]
  /** NaN: not known. */
  readonly numbers: Float64Array
}

const TEXTS = 3
/** Use and limit of both windows stand behind the other numbers of a row. */
const NUMBERS = rowNumbers.length + 4

/** Numbers are written by index, so that no row allocates an array. */
export function packSecond({ rows, ...second }: Second): PackedSecond {
  const texts: string[] = []
  const numbers = new Float64Array(rows.length * NUMBERS)
  let at = 0
  for (const row of rows) {
    texts.push(row.client, row.key, row.plan)
    for (const name of rowNumbers) numbers[at++] = row[name]
    numbers[at++] = row.minute?.used ?? NaN
    numbers[at++] = row.minute?.limit ?? NaN
    numbers[at++] = row.day?.used ?? NaN
    numbers[at++] = row.day?.limit ?? NaN
  }
  return { ...second, texts, numbers }
}

export function unpackSecond({ texts, numbers, ...second }: PackedSecond): Second {
  const rows: TallyRow[] = []
  let at = 0
  const next = (): number => numbers[at++] ?? NaN
  for (let text = 0; text < texts.length; text += TEXTS) {
    const clientId = texts[text] ?? ''
    const keyId = texts[text + 1] ?? ''
    const row = new TallyRow({ clientId, keyId, plan: texts[text + 2] ?? '' }, 0)
    for (const name of rowNumbers) row[name] = next()
    row.minute = useOf(next(), next())
    row.day = useOf(next(), next())
    rows.push(row)
  }
  return { ...second, rows }
}

const useOf = (used: number, limit: number): SeenUse | undefined =>
  Number.isNaN(used) ? undefined : { used, limit }
