/** Reads one client file into the scratch: plain clients as bytes, all others through the schema; with the places of all that is wrong. */
import type { WrittenClient } from '../config.ts'
import { placed, type Place, type Reading } from '../document.ts'
import { unreadable } from '../files.ts'
import { readEntry } from '../parse.ts'
import { formatPath, PROBLEMS_AT_MOST, type ConfigProblem, type PathProblem } from '../problems.ts'
import { textAt, type Group } from '../tree.ts'
import { TooLong, type Span } from './cut-file.ts'
import { isJsonLines, readClients, type Entry } from './entries.ts'
import { parsePlainItem, parsePlainLine, PlainClients } from './plain-clients.ts'
import type { Scratch } from './scratch.ts'

export interface ClientFile {
  /** Name of the file in messages. */
  readonly name: string
  readonly path: string
}

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
const faultOf = (
  file: string,
  index: number,
  { path, ...fault }: Reading['faults'][number],
): FileFault => ({ ...fault, file, path: formatPath(['clients', index, ...path]) })

interface Into {
  readonly scratch: Scratch
  readonly faults: Faults
  /** The group `plans` of the configuration. */
  readonly plans: Group
}

/** Returns the SHA-256 of the file in hex; undefined where it cannot be read, as the faults say. */
export const readFile = (file: ClientFile, into: Into): string | undefined => {
  const { scratch, faults, plans } = into
  const { name } = file
  const fault = ({ line, column }: Place, message: string) =>
    faults.add({ file: name, line, column, path: formatPath([]), message })
  const plain = new PlainClients(plans)
  const parsePlain = isJsonLines(file.path) ? parsePlainLine : parsePlainItem
  /** Only ASCII is plain, so the bytes need no decoding. */
  const readPlain = (span: Span | undefined): WrittenClient | undefined =>
    span && plain.read(parsePlain(span.bytes.toString('latin1', span.start, span.end)))
  const readExactly = ({ index, parse }: Entry): WrittenClient | undefined => {
    const reading = parse()
    const before = faults.count
    for (const each of reading?.faults ?? []) faults.add(faultOf(name, index, each))
    if (reading?.tree === undefined) return undefined
    const { client, problems } = readEntry(reading.tree, plans)
    for (const each of problems)
      if (!reading.isHole(each.path)) faults.add(faultOf(name, index, placed(each, reading)))
    return faults.count === before ? client : undefined
  }
  const entry = (one: Entry): void => {
    const client = readPlain(one.span) ?? readExactly(one)
    if (client !== undefined) scratch.add(client, one.line)
  }
  try {
    return readClients(file.path, { entry, fault })
  } catch (error) {
    const isTooLong = error instanceof TooLong
    if (!isTooLong && (error as NodeJS.ErrnoException).code === undefined) throw error
    const message = isTooLong ? 'has a client of more than 16MiB; divide it' : unreadable(error)
    fault({ line: 1, column: 1 }, message)
    return undefined
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
export const placesIn = (file: ClientFile, sought: readonly Sought[]): FileFault[] => {
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
