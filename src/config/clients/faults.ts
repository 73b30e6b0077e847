/** Faults of client files, up to a number that a person can still use. */
import {
  formatPath,
  PROBLEMS_AT_MOST,
  showValue,
  type ConfigProblem,
  type PathProblem,
} from '../problems.ts'
import { textAt } from '../tree.ts'
import type { ExactEntry } from './entries.ts'

export type FileFault = ConfigProblem & { readonly file: string }

export class Faults {
  list: FileFault[] = []
  dropped = 0

  get count(): number {
    return this.list.length + this.dropped
  }

  add(fault: FileFault): void {
    if (this.list.length < PROBLEMS_AT_MOST) this.list.push(fault)
    else this.dropped++
  }

  /** Drops all but the first `count` faults. */
  rewind(count: number): void {
    this.list = this.list.slice(0, count)
    this.dropped = Math.max(0, count - PROBLEMS_AT_MOST)
  }
}

/** A fault of a client's own text, with its place in the file. */
export const placedFault = (
  file: string,
  { path, line, index }: ExactEntry,
  fault: ExactEntry['reading']['faults'][number],
): FileFault => ({
  file,
  line: fault.line + line - 1,
  column: fault.column,
  path: formatPath(['clients', index, ...fault.path.slice(path.length)]),
  message: fault.message,
})

/** A problem of a client with its place in the file; its path begins at the client. */
export const placed = (file: string, entry: ExactEntry, problem: PathProblem): FileFault => {
  const { reading, path, line, index } = entry
  const whole = [...path, ...problem.path]
  const written = reading.tree === undefined ? undefined : textAt(reading.tree, ...whole)
  const { message } = showValue(problem, written)
  const place = reading.locate({ path: whole, at: problem.at })
  return {
    file,
    line: place.line + line - 1,
    column: place.column,
    path: formatPath(['clients', index, ...problem.path]),
    message,
  }
}
