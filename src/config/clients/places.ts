/** Places of clients and keys that the columns know by number only: their file is read once more, as this is seldom needed. */
import { formatPath, type PathProblem } from '../problems.ts'
import { textAt } from '../tree.ts'
import { readClients, type EntryReader } from './entries.ts'
import { placed, type FileFault } from './faults.ts'

/** A problem of the client with that id at that line. */
export interface Sought extends PathProblem {
  readonly id: string
  readonly line: number
}

/** Returns faults in the order of the file. */
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
