/** Reads one client file into the scratch: plain clients as bytes, all others through the schema. */
import type { WrittenClient } from '../config.ts'
import { placed, type Place } from '../document.ts'
import { unreadable } from '../files.ts'
import { readEntry } from '../parse.ts'
import { formatPath } from '../problems.ts'
import type { Group } from '../tree.ts'
import { TooLong, type Span } from './cut-file.ts'
import { isJsonLines, readClients, type Entry } from './entries.ts'
import { faultOf, type Faults } from './faults.ts'
import { parsePlainItem, parsePlainLine, PlainClients } from './plain-clients.ts'
import type { Scratch } from './scratch.ts'

export interface ClientFile {
  /** Name of the file in messages. */
  readonly name: string
  readonly path: string
}

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
    const start = { line: 1, column: 1 }
    if (error instanceof TooLong)
      return void fault(start, 'has a client of more than 16MiB; divide it')
    if ((error as NodeJS.ErrnoException).code === undefined) throw error
    return void fault(start, unreadable(error))
  }
}
