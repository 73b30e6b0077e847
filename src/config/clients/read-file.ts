/** Reads one client file into the scratch: plain clients as bytes, all others through the schema. */
import type { WrittenClient } from '../config.ts'
import { readEntry } from '../parse.ts'
import { unreadable } from '../files.ts'
import { valueAt, type Group } from '../tree.ts'
import {
  isJsonLines,
  readClients,
  type EntryReader,
  type ExactEntry,
  type Span,
} from './entries.ts'
import { placed, placedFault, type Faults } from './faults.ts'
import { TooLong } from './pieces.ts'
import { PlainJson } from './plain-json.ts'
import { readPlainItem } from './plain-yaml.ts'
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
  const planNames = Object.keys(plans)
  const atStart = { scratch: scratch.mark(), faults: faults.count }
  const add = (client: WrittenClient, line: number): void =>
    scratch.add(client, planNames.indexOf(client.plan), line)

  const json = new PlainJson(scratch, plans)
  const plainYaml = (bytes: Buffer, { start, end }: Span, line: number): boolean => {
    const tree = readPlainItem(bytes.toString('latin1', start, end))
    if (tree === undefined) return false
    const { client, problems } = readEntry(tree, plans)
    if (client === undefined || problems.length > 0) return false
    add(client, line)
    return true
  }
  const exact = (entry: ExactEntry): void => {
    const { reading, path, clientLine } = entry
    const before = faults.count
    for (const fault of reading.faults) faults.add(placedFault(file.name, entry, fault))
    if (reading.tree === undefined) return
    const { client, problems } = readEntry(valueAt(reading.tree, ...path) ?? '', plans)
    for (const each of problems)
      if (!reading.isHole([...path, ...each.path])) faults.add(placed(file.name, entry, each))
    if (client !== undefined && faults.count === before) add(client, clientLine)
  }
  return {
    plain: isJsonLines(file.path)
      ? (bytes, { start, end }, line) => json.take(bytes, start, end, line)
      : plainYaml,
    exact,
    fault: (place, message) => faults.add({ file: file.name, ...place, path: '(file)', message }),
    restart: () => {
      scratch.rewind(atStart.scratch)
      faults.rewind(atStart.faults)
    },
  }
}
