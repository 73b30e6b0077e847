/** A second as it is sent between processes: separate arrays of strings and numbers cost a tenth of objects. */
import { rowNumbers, TallyRow } from '../../core/record/tally.ts'
import type { Second } from './second.ts'

/** Plain data. */
export interface PackedSecond extends Omit<Second, 'rows'> {
  readonly texts: readonly string[]
  readonly numbers: Float64Array
}

const TEXTS = 3

/** Numbers are written by index, so that no row allocates an array. */
export function packSecond({ rows, ...second }: Second): PackedSecond {
  const texts: string[] = []
  const numbers = new Float64Array(rows.length * rowNumbers.length)
  let at = 0
  for (const row of rows) {
    texts.push(row.client, row.key, row.plan)
    for (const name of rowNumbers) numbers[at++] = row[name]
  }
  return { ...second, texts, numbers }
}

export function unpackSecond({ texts, numbers, ...second }: PackedSecond): Second {
  const rows: TallyRow[] = []
  let at = 0
  for (let text = 0; text < texts.length; text += TEXTS) {
    const clientId = texts[text] ?? ''
    const keyId = texts[text + 1] ?? ''
    const row = new TallyRow({ clientId, keyId, plan: texts[text + 2] ?? '' }, 0)
    for (const name of rowNumbers) row[name] = numbers[at++] ?? NaN
    rows.push(row)
  }
  return { ...second, rows }
}
