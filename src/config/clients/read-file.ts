/** Reads the clients of one source into the scratch: plain ones at once, all others through the schema; with the places of all that is wrong. */
import type { WrittenClient } from '../config.ts'
import { placed } from '../document.ts'
import { unreadable } from '../files.ts'
import { readEntry } from '../parse.ts'
import { ofWholeFile, PROBLEMS_AT_MOST, type ConfigProblem, type PathProblem } from '../problems.ts'
import { textAt, type Group } from '../tree.ts'
import { TooLong } from './cut-file.ts'
import type { ClientSource, Entry } from './entries.ts'
import { PlainClients } from './plain-clients.ts'
import type { Scratch } from './scratch.ts'

/** A fault with its place in the file; its path begins at the client, which `index` others stand before. */
const faultOf = (
  { name: file }: ClientSource,
  index: number,
  { path, ...fault }: ConfigProblem,
): ConfigProblem => ({ ...fault, file, path: ['clients', index, ...path] })

interface Into {
  readonly scratch: Scratch
  /** The search ends at PROBLEMS_AT_MOST. */
  readonly faults: ConfigProblem[]
  /** The group `plans` of the configuration. */
  readonly plans: Group
}

/** Returns the SHA-256 of the file in hex; undefined where it cannot be read, as the faults say. */
export const readSource = (source: ClientSource, into: Into): string | undefined => {
  const { scratch, faults, plans } = into
  const plainClients = new PlainClients(plans)
  const fault = (of: ConfigProblem): void => void faults.push({ ...of, file: source.name })
  const readExactly = ({ index, parse }: Entry): WrittenClient | undefined => {
    const reading = parse()
    if (reading === undefined) return undefined
    const judged = reading.tree === undefined ? undefined : readEntry(reading.tree, plans)
    const problems = judged?.problems.filter(({ path }) => !reading.isHole(path)) ?? []
    const found = [...reading.faults, ...problems.map((each) => placed(each, reading))]
    faults.push(...found.map((each) => faultOf(source, index, each)))
    return found.length === 0 ? judged?.client : undefined
  }
  const entry = (one: Entry): void => {
    if (faults.length >= PROBLEMS_AT_MOST) return
    const client = plainClients.read(one.plain()) ?? readExactly(one)
    if (client !== undefined) scratch.add(client, one.line)
  }
  try {
    return source.read({ entry, fault })
  } catch (error) {
    const isTooLong = error instanceof TooLong
    if (!isTooLong && (error as NodeJS.ErrnoException).code === undefined) throw error
    const message = isTooLong ? 'has a client of more than 16MiB; divide it' : unreadable(error)
    fault(ofWholeFile(message))
    return undefined
  }
}

/** A problem of the client with that id at that line. */
export interface Sought extends PathProblem {
  readonly id: string
  readonly line: number
}

/**
 * Places of clients and keys that the columns know by number only: their source is read once more, as this is seldom needed.
 * Returns faults in the order of the file.
 */
export const placesIn = (source: ClientSource, sought: readonly Sought[]): ConfigProblem[] => {
  const byLine = Map.groupBy(sought, ({ line }) => line)
  const found = new Map<Sought, ConfigProblem>()
  const entry = ({ line, index, parse }: Entry): void => {
    const wanted = byLine.get(line) ?? []
    const reading = wanted.length > 0 ? parse() : undefined
    if (reading === undefined) return
    const id = textAt(reading.tree, 'id')
    for (const one of wanted)
      // Where the id occurs twice in that line, the later client has the problem.
      if (one.id === id && textAt(reading.tree, ...one.path) !== undefined)
        found.set(one, faultOf(source, index, placed(one, reading)))
  }
  try {
    source.read({ entry, fault: () => undefined })
  } catch {
    // The file cannot be read to its end, as another problem reports: the lines are known.
    for (const one of sought)
      if (!found.has(one)) {
        const { line, path, message } = one
        found.set(one, { file: source.name, line, column: 1, path, message })
      }
  }
  return [...found.values()]
}
