/** Columns of a batch or of waiting requests, in one buffer that threads pass to each other. */
import { outcomes, type LogBatch } from './batch.ts'
import type { RequestRow } from './row.ts'

/** Bytes of one request in all columns: 4 times 8, 5 times 4, 2 times 1. */
const ROW_BYTES = 54
export const BATCH_BYTES = 8_192 * ROW_BYTES

type Column = Float64Array | Uint32Array | Uint8Array
export type Columns = Omit<LogBatch, 'count'> & { readonly all: readonly Column[] }

export const makeColumns = (rows: number): Columns => columnsOf(new ArrayBuffer(rows * ROW_BYTES))

/** The widest columns come first, so that all are aligned. */
export function columnsOf(buffer: ArrayBuffer): Columns {
  const rows = buffer.byteLength / ROW_BYTES
  let at = 0
  const next = (bytes: number): [ArrayBuffer, number, number] => {
    const from = at
    at += bytes * rows
    return [buffer, from, rows]
  }
  const columns = {
    atMs: new Float64Array(...next(8)),
    refundedAtMs: new Float64Array(...next(8)),
    minuteLeft: new Float64Array(...next(8)),
    dayLeft: new Float64Array(...next(8)),
    caller: new Uint32Array(...next(4)),
    route: new Uint32Array(...next(4)),
    revision: new Uint32Array(...next(4)),
    process: new Uint32Array(...next(4)),
    plan: new Uint32Array(...next(4)),
    outcome: new Uint8Array(...next(1)),
    degraded: new Uint8Array(...next(1)),
  }
  return { ...columns, all: Object.values(columns) }
}

const outcomeNumbers = Object.fromEntries(outcomes.map((name, at) => [name, at]))

export function put(row: RequestRow, into: Columns, at: number): void {
  into.atMs[at] = row.atMs
  into.refundedAtMs[at] = row.refundedAtMs
  into.minuteLeft[at] = row.minuteLeft
  into.dayLeft[at] = row.dayLeft
  into.caller[at] = row.caller
  into.route[at] = row.route
  into.revision[at] = row.revision
  into.process[at] = row.process
  into.plan[at] = row.plan
  into.outcome[at] = outcomeNumbers[row.outcome] ?? 0
  into.degraded[at] = row.degraded
}

export function copy(from: Columns, fromAt: number, into: Columns, at: number): void {
  for (let nth = 0; nth < into.all.length; nth++) {
    const column = into.all[nth]
    if (column !== undefined) column[at] = from.all[nth]?.[fromAt] ?? 0
  }
}
