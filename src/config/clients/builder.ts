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
  const ends: number[] = []
  const sha256 = sources.map((source) => {
    const read = readSource(source, { scratch, faults, plans })
    ends.push(scratch.clients)
    return read ?? ''
  })
  const twice: Same[] = []
  const table = scratch.finish((same) => {
    if (faults.length + twice.length < PROBLEMS_AT_MOST) twice.push(same)
  })
  const found = findingsIn(sources, columnsOf(table.buffer, table.counts), ends)
  faults.push(...found.places(twice.map((same) => found.repeated(same))))
  const isSound = faults.length === 0
  return {
    table: isSound ? table : undefined,
    sha256,
    faults,
    warnings: isSound ? found.places(found.over(nowMs)) : [],
  }
}

/** Findings in the columns, reported by file and line. ends: one more than the number of the last client of each source. */
const findingsIn = (
  sources: readonly ClientSource[],
  columns: Columns,
  ends: readonly number[],
) => {
  const { clientIds, clientLine, clientFirstKey, keyClient, keyExpiresAtMs } = columns
  const sourceOf = (client: number): number => ends.findIndex((end) => client < end)
  const placeOf = (client: number): string => {
    const line = clientLine[client] ?? 0
    const name = sources[sourceOf(client)]?.name
    return name === undefined ? formatPath(['clients', line]) : `${name}:${line}`
  }
  const at = (client: number, path: Path, message: string): Finding => ({
    ...problem(path, message),
    source: sourceOf(client),
    id: textOf(clientIds, client),
    line: clientLine[client] ?? 0,
  })
  const atKey = (key: number, field: string, message: string): Finding => {
    const client = keyClient[key] ?? 0
    return at(client, ['keys', key - (clientFirstKey[client] ?? 0), field], message)
  }
  return {
    repeated: ({ kind, number, earlier }: Same): Finding => {
      if (kind === 'client') return at(number, ['id'], sameId(placeOf(earlier)))
      const place = placeOf(keyClient[earlier] ?? 0)
      return kind === 'key'
        ? atKey(number, 'id', sameId(place))
        : atKey(number, 'sha256', sameDigest(place))
    },
    /** The first expired keys. */
    over: (nowMs: number): Finding[] => {
      const findings: Finding[] = []
      for (let key = 0; key < keyExpiresAtMs.length && findings.length < WARNINGS_AT_MOST; key++)
        if ((keyExpiresAtMs[key] ?? 0) <= nowMs) findings.push(atKey(key, 'expires', keyIsOver))
      return findings
    },
    /** The findings with their lines and columns, in the order of the sources. */
    places: (all: readonly Finding[]): ConfigProblem[] =>
      sources.flatMap((source, index) => {
        const sought = all.filter((one) => one.source === index)
        return sought.length === 0 ? [] : placesIn(source, sought)
      }),
  }
}

interface Finding extends Sought {
  readonly source: number
}
