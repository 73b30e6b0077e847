/** Builds the table of all clients, those of the configuration itself and of its client files: the whole table, or every fault with its place. The same code runs in a thread and without one. */
import { sameDigest, sameId } from '../plans.ts'
import {
  formatPath,
  problem,
  PROBLEMS_AT_MOST,
  type ConfigProblem,
  type Path,
} from '../problems.ts'
import type { Group } from '../tree.ts'
import { keyIsOver } from './warnings.ts'
import { columnsOf, type Columns } from './columns.ts'
import { placesIn, readSource, type Sought } from './read-file.ts'
import type { ClientTableParts } from './client-table.ts'
import type { ClientSource } from './entries.ts'
import { textOf } from './index-slots.ts'
import { Scratch, type Same } from './scratch.ts'

export interface BuildRequest {
  readonly sources: readonly ClientSource[]
  /** The group `plans` of the configuration. */
  readonly plans: Group
  readonly nowMs: number
}

export interface Built {
  /** undefined: there are faults. */
  readonly table: ClientTableParts | undefined
  /** Digest of each source, in hex. */
  readonly sha256: readonly string[]
  readonly faults: readonly ConfigProblem[]
  readonly warnings: readonly ConfigProblem[]
}

/** Expired keys that are named one by one. */
const WARNINGS_AT_MOST = 20

export const build = ({ sources, plans, nowMs }: BuildRequest): Built => {
  const scratch = new Scratch(
    Object.keys(plans),
    sources.reduce((sum, { bytes }) => sum + bytes, 0),
  )
  const faults: ConfigProblem[] = []
  const sha256 = sources.map((source) => {
    const read = readSource(source, { scratch, faults, plans })
    scratch.endSource()
    return read ?? ''
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
    if (kind === 'client') return this.#at(number, ['id'], sameId(this.#placeOf(earlier)))
    const place = this.#placeOf(this.#columns.keyClient[earlier] ?? 0)
    return kind === 'key'
      ? this.#atKey(number, 'id', sameId(place))
      : this.#atKey(number, 'sha256', sameDigest(place))
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
    const bySource = Map.groupBy(all, ({ source }) => source)
    return this.#sources.flatMap((source, index) => {
      const sought = bySource.get(index)
      return sought === undefined ? [] : placesIn(source, sought)
    })
  }

  #atKey(key: number, field: string, message: string): Finding {
    const { keyClient, clientFirstKey } = this.#columns
    const client = keyClient[key] ?? 0
    return this.#at(client, ['keys', key - (clientFirstKey[client] ?? 0), field], message)
  }

  #at(client: number, path: Path, message: string): Finding {
    const { clientIds, clientLine } = this.#columns
    return {
      ...problem(path, message),
      source: this.#sourceOf(client),
      id: textOf(clientIds, client),
      line: clientLine[client] ?? 0,
    }
  }

  #placeOf(client: number): string {
    const line = this.#columns.clientLine[client] ?? 0
    const name = this.#sources[this.#sourceOf(client)]?.name
    return name === undefined ? formatPath(['clients', line]) : `${name}:${line}`
  }

  /** Index among the sources. */
  #sourceOf(client: number): number {
    return this.#ends.findIndex((end) => client < end)
  }
}

interface Finding extends Sought {
  readonly source: number
}
