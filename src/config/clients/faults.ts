/** Faults of client files with their places, up to a number that a person can still use. */
import {
  formatPath,
  PROBLEMS_AT_MOST,
  showValue,
  type ConfigProblem,
  type PathProblem,
} from '../problems.ts'
import { textAt } from '../tree.ts'
import { readClients, type EntryReader, type ExactEntry } from './entries.ts'

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

/** A problem of the client with that id at that line. */
export interface Sought extends PathProblem {
  readonly id: string
  readonly line: number
}

/**
 * Places of clients and keys that the columns know by number only: their file is read once more, as this is seldom needed.
 * Returns faults in the order of the file.
 */
export const placesIn = (
  file: { readonly name: string; readonly path: string },
  sought: readonly Sought[],
): FileFault[] => {
  const byLine = Map.groupBy(sought, ({ line }) => line)
  const found = new Map<Sought, FileFault>()
  const reader: EntryReader = {
    plain: (_bytes, _span, line) => !byLine.has(line),
    exact: (entry) => {
      const { tree } = entry.reading
      const id = textAt(tree, ...entry.path, 'id')
      for (const one of byLine.get(entry.clientLine) ?? [])
        // Where the id occurs twice in that line, the later client has the problem.
        if (one.id === id && textAt(tree, ...entry.path, ...one.path) !== undefined)
          found.set(one, placed(file.name, entry, one))
    },
    fault: () => undefined,
    restart: () => found.clear(),
  }
  try {
    readClients(file.path, reader)
  } catch {
    // The file cannot be read to its end, as another problem reports: the lines are known.
    for (const one of sought) if (!found.has(one)) found.set(one, atLine(file.name, one))
  }
  return [...found.values()]
}

const atLine = (file: string, { line, path, message }: Sought): FileFault => ({
  file,
  line,
  column: 1,
  path: formatPath(path),
  message,
})
