/** Builds the table of all clients, those of the configuration itself and of its client files: the whole table, or every fault with its place. The same code runs in a thread and without one. */
import type { WrittenClient } from '../config.ts'
import { placed } from '../document.ts'
import { unreadable } from '../files.ts'
import { readEntry } from '../parse.ts'
import { sameDigest, sameId } from '../plans.ts'
import { formatPath, ofWholeFile, problem, PROBLEMS_AT_MOST } from '../problems.ts'
import type { ConfigProblem, PathProblem } from '../problems.ts'
import { has, textAt, type Group } from '../tree.ts'
import { keyIsOver } from './warnings.ts'
import type { ClientTableParts } from './client-table.ts'
import { columnsOf, Scratch, type Columns, type Same } from './columns.ts'
import { TooLong } from './cut-file.ts'
import type { ClientSource, Entry } from './entries.ts'
import { textOf } from './index-slots.ts'
import { PlainClients } from './plain-clients.ts'

export type Built = ReturnType<typeof build>

/** Expired keys that are named one by one. */
const WARNINGS_AT_MOST = 20

/** plans: the group of that name in the configuration. Returns no table where there are faults; sha256: of each source, in hex. */
export const build = (sources: readonly ClientSource[], plans: Group, nowMs: number) => {
  const scratch = new Scratch(
    Object.keys(plans),
    sources.reduce((sum, { bytes }) => sum + bytes, 0),
  )
  const faults: ConfigProblem[] = []
  const plainClients = new PlainClients(plans)
  const sha256 = sources.map((source) => {
    const read = readSource(source, faults, (one) => {
      const client = plainClients.read(one.plain()) ?? readExactly(one, source, { plans, faults })
      if (client !== undefined) scratch.add(client, one.line)
    })
    scratch.endSource()
    return read
  })
  const twice: Same[] = []
  const table = scratch.finish((same) => {
    if (faults.length + twice.length < PROBLEMS_AT_MOST) twice.push(same)
  })
  const found = new Found(sources, table)
  faults.push(...found.places(twice.map((same) => found.repeated(same))))
  const isSound = faults.length === 0
  return {
    table: isSound ? table : undefined,
    sha256,
    faults,
    warnings: isSound ? found.places(found.over(nowMs)) : [],
  }
}

/** Returns the SHA-256 of the source in hex, and '' where it cannot be read, as the faults say: the search ends at PROBLEMS_AT_MOST. */
const readSource = (
  source: ClientSource,
  faults: ConfigProblem[],
  take: (entry: Entry) => void,
): string => {
  const fault = (of: ConfigProblem): void => void faults.push({ ...of, file: source.name })
  const entry = (one: Entry): void => {
    if (faults.length < PROBLEMS_AT_MOST) take(one)
  }
  try {
    return source.read(entry, fault)
  } catch (error) {
    const isTooLong = error instanceof TooLong
    if (!isTooLong && (error as NodeJS.ErrnoException).code === undefined) throw error
    const message = isTooLong ? 'has a client of more than 16MiB; divide it' : unreadable(error)
    fault(ofWholeFile(message))
    return ''
  }
}

/** Reads a client by the schema; undefined: it has faults. */
const readExactly = (
  { index, parse }: Entry,
  source: ClientSource,
  { plans, faults }: { readonly plans: Group; readonly faults: ConfigProblem[] },
): WrittenClient | undefined => {
  const reading = parse()
  if (reading === undefined) return undefined
  const judged = reading.tree === undefined ? undefined : readEntry(reading.tree, plans)
  const problems = judged?.problems.filter(({ path }) => !reading.isHole(path)) ?? []
  const found = [...reading.faults, ...problems.map((each) => placed(each, reading))]
  faults.push(...found.map((each) => faultOf(source, index, each)))
  return found.length === 0 ? judged?.client : undefined
}

/** A fault with its place in the file; its path begins at the client, which `index` others stand before. */
const faultOf = (
  { name: file }: ClientSource,
  index: number,
  { path, ...fault }: ConfigProblem,
): ConfigProblem => ({ ...fault, file, path: ['clients', index, ...path] })

/** A problem of a client, by its number in the columns, or of one of its keys. */
interface Finding extends PathProblem {
  readonly client: number
}

/** Findings in the columns, reported by file and line. */
class Found {
  readonly #sources: readonly ClientSource[]
  readonly #columns: Columns
  readonly #ends: readonly number[]

  constructor(sources: readonly ClientSource[], table: ClientTableParts) {
    this.#sources = sources
    this.#columns = columnsOf(table.buffer, table.counts)
    this.#ends = table.sourceEnds
  }

  repeated({ kind, number, earlier }: Same): Finding {
    if (kind === 'client')
      return { client: number, ...problem(['id'], sameId(this.#placeOf(earlier))) }
    const place = this.#placeOf(this.#columns.keyClient[earlier] ?? 0)
    if (kind === 'key') return this.#atKey(number, 'id', sameId(place))
    return this.#atKey(number, 'sha256', sameDigest(place))
  }

  /** The first expired keys. */
  over(nowMs: number): Finding[] {
    const { keyExpiresAtMs } = this.#columns
    const findings: Finding[] = []
    for (let key = 0; key < keyExpiresAtMs.length && findings.length < WARNINGS_AT_MOST; key++)
      if ((keyExpiresAtMs[key] ?? 0) <= nowMs) findings.push(this.#atKey(key, 'expires', keyIsOver))
    return findings
  }

  /** The findings with their lines and columns, in the order of the sources. */
  places(all: readonly Finding[]): ConfigProblem[] {
    const bySource = Map.groupBy(all, ({ client }) => this.#sourceOf(client))
    return this.#sources.flatMap((source, at) => {
      const sought = bySource.get(at)
      return sought === undefined ? [] : this.#placesIn(source, sought)
    })
  }

  /** Reads the source once more, as this is seldom needed. Where it cannot be read again to its end, the lines are known. */
  #placesIn(source: ClientSource, sought: readonly Finding[]): ConfigProblem[] {
    const { clientIds, clientLine } = this.#columns
    const lineOf = ({ client }: Finding): number => clientLine[client] ?? 0
    const byLine = Map.groupBy(sought, lineOf)
    const found = new Map<Finding, ConfigProblem>()
    for (const one of sought)
      found.set(one, { ...one, file: source.name, line: lineOf(one), column: 1 })
    const entry = ({ line, index, parse }: Entry): void => {
      const wanted = byLine.get(line) ?? []
      const reading = wanted.length > 0 ? parse() : undefined
      if (reading === undefined) return
      const id = textAt(reading.tree, 'id')
      for (const one of wanted)
        // Where the id occurs twice in that line, the later client has the problem.
        if (textOf(clientIds, one.client) === id && has(reading.tree, ...one.path))
          found.set(one, faultOf(source, index, placed(one, reading)))
    }
    try {
      source.read(entry)
    } catch {
      // Another problem reports it.
    }
    return [...found.values()]
  }

  #atKey(key: number, field: string, message: string): Finding {
    const { keyClient, clientFirstKey } = this.#columns
    const client = keyClient[key] ?? 0
    const index = key - (clientFirstKey[client] ?? 0)
    return { client, ...problem(['keys', index, field], message) }
  }

  #placeOf(client: number): string {
    const line = this.#columns.clientLine[client] ?? 0
    const name = this.#sources[this.#sourceOf(client)]?.name
    return name === undefined ? formatPath(['clients', line]) : `${name}:${line}`
  }

  #sourceOf(client: number): number {
    return this.#ends.findIndex((end) => client < end)
  }
}
