/** Builds the table of all clients, those of the configuration itself and of its client files: the whole table, or every fault with its place. The same code runs in a thread and without one. */
import type { WrittenClient } from '../config.ts'
import { sameDigest, sameId } from '../plans.ts'
import { formatPath, problem, PROBLEMS_AT_MOST, type Path } from '../problems.ts'
import type { Group } from '../tree.ts'
import { EXPIRING_MS, keyIsOver } from './warnings.ts'
import { columnsOf, countEnding, type Columns } from './columns.ts'
import {
  Faults,
  placesIn,
  readFile,
  type ClientFile,
  type FileFault,
  type Sought,
} from './read-file.ts'
import type { ClientTableParts } from './client-table.ts'
import { Scratch, type Same } from './scratch.ts'

export interface BuildRequest {
  /** Clients of the configuration itself, in their order; no id and no digest occurs twice. */
  readonly own: readonly WrittenClient[]
  /** bytes: length of the file. */
  readonly files: readonly (ClientFile & { readonly bytes: number })[]
  /** The group `plans` of the configuration. */
  readonly plans: Group
  readonly nowMs: number
}

export interface Built {
  /** undefined: there are faults. */
  readonly table: ClientTableParts | undefined
  /** Digest of each file, in hex. */
  readonly sha256: readonly string[]
  readonly faults: readonly FileFault[]
  /** Number of faults left out, as there are too many. */
  readonly dropped: number
  readonly warnings: readonly FileFault[]
  /** Number of keys that end soon: one warning covers them all, as there may be millions. */
  readonly ending: number
}

/** Expired keys that are named one by one. */
const WARNINGS_AT_MOST = 20

/** One more than the number of the last client of each file; the first entry is for the configuration itself. */
type Ends = readonly number[]

export const build = (request: BuildRequest): Built => {
  const { own, files, plans } = request
  const textBytes = files.reduce((sum, { bytes }) => sum + bytes, JSON.stringify(own).length)
  const scratch = new Scratch(Object.keys(plans), textBytes)
  const faults = new Faults()
  for (const [index, client] of own.entries()) scratch.add(client, index)
  const ends = [scratch.clients]
  const sha256 = files.map((file) => {
    const read = readFile(file, { scratch, faults, plans })
    ends.push(scratch.clients)
    return read ?? ''
  })
  const twice: Same[] = []
  const table = scratch.finish((same) => {
    if (faults.count + twice.length < PROBLEMS_AT_MOST) twice.push(same)
    else faults.dropped++
  })
  const columns = columnsOf(table.buffer, table.counts)
  const found = new Found(request, columns, ends)
  for (const fault of found.places(twice.map((same) => found.repeated(same)))) faults.add(fault)
  const isSound = faults.count === 0
  return {
    table: isSound ? table : undefined,
    sha256,
    faults: faults.list,
    dropped: faults.dropped,
    warnings: isSound ? found.places(found.over()) : [],
    ending: countEnding(columns, request.nowMs, request.nowMs + EXPIRING_MS),
  }
}

/** Findings in the columns, reported by file and line. */
class Found {
  readonly #request: BuildRequest
  readonly #columns: Columns
  readonly #ends: Ends

  constructor(request: BuildRequest, columns: Columns, ends: Ends) {
    this.#request = request
    this.#columns = columns
    this.#ends = ends
  }

  repeated({ kind, number, earlier }: Same): Finding {
    if (kind === 'client') return this.#at(number, ['id'], sameId(this.#placeOf(earlier)))
    const place = this.#placeOf(this.#columns.keyClient[earlier] ?? 0)
    return kind === 'key'
      ? this.#atKey(number, 'id', sameId(place))
      : this.#atKey(number, 'sha256', sameDigest(place))
  }

  /** Expired keys of client files. */
  over(): Finding[] {
    const { keyExpiresAtMs, clientFirstKey } = this.#columns
    const findings: Finding[] = []
    const first = clientFirstKey[this.#ends[0] ?? 0] ?? keyExpiresAtMs.length
    for (let key = first; key < keyExpiresAtMs.length && findings.length < WARNINGS_AT_MOST; key++)
      if ((keyExpiresAtMs[key] ?? 0) <= this.#request.nowMs)
        findings.push(this.#atKey(key, 'expires', keyIsOver))
    return findings
  }

  /** The findings with their lines and columns, in the order of the files. */
  places(all: readonly Finding[]): FileFault[] {
    const byFile = Map.groupBy(all, ({ file }) => file)
    return this.#request.files.flatMap((file, index) => {
      const sought = byFile.get(index)
      return sought === undefined ? [] : placesIn(file, sought)
    })
  }

  #atKey(key: number, field: string, message: string): Finding {
    const { keyClient, clientFirstKey } = this.#columns
    const client = keyClient[key] ?? 0
    return this.#at(client, ['keys', key - (clientFirstKey[client] ?? 0), field], message)
  }

  #at(client: number, path: Path, message: string): Finding {
    const { ids, clientIdAt, clientIdLength, clientLine } = this.#columns
    const at = clientIdAt[client] ?? 0
    return {
      ...problem(path, message),
      file: this.#fileOf(client),
      id: ids.toString('latin1', at, at + (clientIdLength[client] ?? 0)),
      line: clientLine[client] ?? 0,
    }
  }

  #placeOf(client: number): string {
    const line = this.#columns.clientLine[client] ?? 0
    const file = this.#request.files[this.#fileOf(client)]
    return file === undefined ? formatPath(['clients', line]) : `${file.name}:${line}`
  }

  /** Index among the files; -1 would be the configuration itself, which reports its own faults. */
  #fileOf(client: number): number {
    return this.#ends.findIndex((end) => client < end) - 1
  }
}

interface Finding extends Sought {
  readonly file: number
}
