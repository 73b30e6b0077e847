/** Places of clients and keys that the columns know by number only: their file is read once more, as this is seldom needed. */
import type { PathProblem } from '../config/problems.ts'
import { textAt } from '../config/tree.ts'
import { readClients } from './entries.ts'
import { placed, type FileFault } from './faults.ts'

/** A problem of the client of that id that begins in that line. */
export interface Sought extends PathProblem {
  readonly id: string
  readonly line: number
}

/** In the order of the file. */
export const placesIn = (
  file: { readonly name: string; readonly path: string },
  sought: readonly Sought[],
): FileFault[] => {
  const byLine = Map.groupBy(sought, ({ line }) => line)
  const found = new Map<Sought, FileFault>()
  readClients(file.path, {
    plain: (_bytes, _span, line) => !byLine.has(line),
    exact: (entry) => {
      const { tree } = entry.reading
      const id = textAt(tree, ...entry.path, 'id')
      for (const one of byLine.get(entry.clientLine) ?? [])
        // Of two with that id in that line the later has the problem.
        if (one.id === id && textAt(tree, ...entry.path, ...one.path) !== undefined)
          found.set(one, placed(file.name, entry, one))
    },
    fault: () => undefined,
    restart: () => found.clear(),
  })
  return [...found.values()]
}
