/** Writes a report as a page of its own. */
import { writeFileSync } from 'node:fs'
import { Fault } from './fault.ts'
import type { Output } from '../edge.ts'

/** Prints where the page is; throws a Fault where it cannot be written. */
export function writePage({ complain }: Pick<Output, 'complain'>, file: string, page: string) {
  try {
    writeFileSync(file, page)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    const remedy = 'name a file in a folder that can be written: --html FILE'
    throw new Fault('unwritable', `cannot write ${file}`, { reason, remedy, cause })
  }
  complain(`report: ${file}`)
}
