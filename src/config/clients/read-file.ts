/** Reads one client file into the scratch: plain clients as bytes, all others through the schema. */
import { unreadable } from '../files.ts'
import { readEntry } from '../parse.ts'
import { valueAt, type Group } from '../tree.ts'
import { isJsonLines, readClients, type EntryReader } from './entries.ts'
import { placed, placedFault, type Faults } from './faults.ts'
import { TooLong } from './pieces.ts'
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
  const { faults } = into
  const refuse = (message: string): undefined => {
    faults.add({ file: file.name, line: 1, column: 1, path: '(file)', message })
  }
  try {
    return readClients(file.path, entryReader(file, into))
  } catch (error) {
    if (error instanceof TooLong) return refuse('has a client of more than 16MiB; divide it')
    if ((error as NodeJS.ErrnoException).code === undefined) throw error
    return refuse(unreadable(error))
  }
}

const entryReader = (file: ClientFile, { scratch, faults, plans }: Into): EntryReader => {
  const atStart = { scratch: scratch.mark(), faults: faults.count }
  const plain = new PlainClients(plans)
  const parse = isJsonLines(file.path) ? parsePlainLine : parsePlainItem
  return {
    plain: (bytes, { start, end }, line) => {
      // Only ASCII is plain, so the bytes need no decoding.
      const client = plain.read(parse(bytes.toString('latin1', start, end)))
      if (client !== undefined) scratch.add(client, line)
      return client !== undefined
    },
    exact: (entry) => {
      const { reading, path, clientLine } = entry
      const before = faults.count
      for (const fault of reading.faults) faults.add(placedFault(file.name, entry, fault))
      if (reading.tree === undefined) return
      const { client, problems } = readEntry(valueAt(reading.tree, ...path) ?? '', plans)
      for (const each of problems)
        if (!reading.isHole([...path, ...each.path])) faults.add(placed(file.name, entry, each))
      if (client !== undefined && faults.count === before) scratch.add(client, clientLine)
    },
    fault: (place, message) => faults.add({ file: file.name, ...place, path: '(file)', message }),
    restart: () => {
      scratch.rewind(atStart.scratch)
      faults.rewind(atStart.faults)
    },
  }
}
