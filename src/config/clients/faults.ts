/** Faults of client files with their places, up to a number that a person can still use. */
import { formatPath, PROBLEMS_AT_MOST, type ConfigProblem, type PathProblem } from '../problems.ts'
import { placed, type Reading } from '../document.ts'
import { textAt } from '../tree.ts'
import { readClients, type Entry } from './entries.ts'

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
}

/** A fault with its place in the file; its path begins at the client, which `index` others stand before. */
export const faultOf = (
  file: string,
  index: number,
  { path, ...fault }: Reading['faults'][number],
): FileFault => ({ ...fault, file, path: formatPath(['clients', index, ...path]) })

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
  const entry = ({ line, index, parse }: Entry): void => {
    const wanted = byLine.get(line) ?? []
    const reading = wanted.length > 0 ? parse() : undefined
    if (reading === undefined) return
    const id = textAt(reading.tree, 'id')
    for (const one of wanted)
      // Where the id occurs twice in that line, the later client has the problem.
      if (one.id === id && textAt(reading.tree, ...one.path) !== undefined)
        found.set(one, faultOf(file.name, index, placed(one, reading)))
  }
  try {
    readClients(file.path, { entry, fault: () => undefined })
  } catch {
    // The file cannot be read to its end, as another problem reports: the lines are known.
    for (const one of sought)
      if (!found.has(one)) {
        const { line, path, message } = one
        const at = { line, column: 1, path: formatPath(path) }
        found.set(one, { ...at, file: file.name, message })
      }
  }
  return [...found.values()]
}
