/** Reads one client file into the scratch: what is plain as bytes, all else through the schema. */
import { readEntry } from '../config/entries.ts'
import { unreadable } from '../config/files.ts'
import { textAt, valueAt, type Tree } from '../config/tree.ts'
import { isJsonLines, readClients, type EntryReader, type ExactEntry } from './entries.ts'
import { placed, placedFault, type Faults } from './faults.ts'
import { TooLong } from './pieces.ts'
import { PlainJson } from './plain-json.ts'
import { PlainYaml } from './plain-yaml.ts'
import type { Scratch } from './scratch.ts'

export interface ClientFile {
  /** As it is told. */
  readonly name: string
  readonly path: string
}

interface Into {
  readonly scratch: Scratch
  readonly faults: Faults
  /** The group `plans` of the configuration. */
  readonly plans: Tree
  readonly planNames: readonly string[]
}

/** Returns the SHA-256 of the file in hex; undefined where it cannot be read, as the faults tell. */
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

const entryReader = (file: ClientFile, into: Into): EntryReader => {
  const { scratch, faults, plans, planNames } = into
  const known = planNames.map((name) => ({
    name: Buffer.from(name),
    isCustom: textAt(plans, name, 'custom') === 'true',
  }))
  const isJson = isJsonLines(file.path)
  const reader = new (isJson ? PlainJson : PlainYaml)(scratch, known)
  const atStart = { scratch: scratch.mark(), faults: faults.count }

  const exact = (entry: ExactEntry): void => {
    const { reading, path, clientLine } = entry
    const before = faults.count
    for (const fault of reading.faults) faults.add(placedFault(file.name, entry, fault))
    if (reading.tree === undefined) return
    const { client, problems } = readEntry(valueAt(reading.tree, ...path) ?? '', plans)
    for (const each of problems)
      if (!reading.isHole([...path, ...each.path])) faults.add(placed(file.name, entry, each))
    if (client !== undefined && faults.count === before)
      scratch.add(client, planNames.indexOf(client.plan), clientLine)
  }
  return {
    plain: (bytes, { start, end }, line) => reader.take(bytes, start, end, line),
    exact,
    fault: (place, message) => faults.add({ file: file.name, ...place, path: '(file)', message }),
    restart: () => {
      scratch.rewind(atStart.scratch)
      faults.rewind(atStart.faults)
    },
  }
}
