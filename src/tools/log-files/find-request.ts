/** Finds requests in Tollgate's access logs by their id. A file is read as a stream, and only what is asked for is kept. */
import type { BanRecord } from '../../state/bans.ts'
import { findLogs, MAX_LINE_CHARS, readLines, type ReadCounts } from './input.ts'
import { parseFields, readOwnLine, textOf, type Fields } from './lines.ts'
import type { RequestRow } from './row.ts'

export interface FoundRequest {
  readonly line: number
  readonly fields: Fields
  readonly row: RequestRow
  /** Revision of the last configuration logged before the request; undefined: none. */
  readonly revision: string | undefined
  /** The last ban of the request's key logged before it; undefined: none. */
  readonly ban: BanRecord | undefined
}

export const MOST_FOUND = 20
const MOST_BANS = 100_000

/** Parts of the lines that say what held when a request was decided. */
const around = ['"event":"configTaken"', '"event":"keyBanned"', '"event":"audit"']

/**
 * Finds the first requests with this id, MOST_FOUND at most. The file may be packed; `-` is the standard input. isCutOff: the
 * packed data ends too early, or is damaged from some byte on. Rejects with a Fault if it cannot be read.
 */
export async function findRequests(file: string, id: string) {
  const found: FoundRequest[] = []
  const bans = new Map<string, BanRecord>()
  const needles = [JSON.stringify(id), ...around]
  const counts: ReadCounts = { readBytes: 0, cutOff: [] }
  let revision: string | undefined
  let lines = 0
  const look = (text: string): void => {
    lines++
    if (text.length > MAX_LINE_CHARS || !needles.some((needle) => text.includes(needle))) return
    const fields = parseFields(text) ?? {}
    const { event, key } = fields
    if (event === 'configTaken') revision = textOf(fields['revision'])
    if (event === 'keyBanned' || event === 'audit') note(bans, fields)
    if (event !== 'access' || fields['id'] !== id || found.length === MOST_FOUND) return
    const row = readOwnLine(fields)
    if (typeof row !== 'string')
      found.push({ line: lines, fields, row, revision, ban: bans.get(String(key)) })
  }
  for (const log of findLogs([file]))
    for await (const texts of readLines(log, counts)) for (const text of texts) look(text)
  return { found, lines, isCutOff: counts.cutOff.length > 0 }
}

/** Keeps the ban that a line reports: one for strikes, or one that an operator has set or lifted. `count` is 0, as lines do not have it. */
function note(bans: Map<string, BanRecord>, { key, time, forMs, strikes, action, after }: Fields) {
  if (typeof key !== 'string' || bans.size >= MOST_BANS) return
  const startedMs = Date.parse(String(time))
  if (typeof forMs === 'number') {
    const untilMs = startedMs + forMs
    bans.set(key, { startedMs, untilMs, count: 0, reason: `${String(strikes)} strikes` })
  } else if (action === 'ban' || action === 'liftBan') {
    const { since, until, reason } = (after ?? {}) as Fields
    if (since === undefined) bans.delete(key)
    else
      bans.set(key, {
        startedMs: Date.parse(textOf(since) ?? ''),
        untilMs: Date.parse(textOf(until) ?? ''),
        count: 0,
        reason: textOf(reason),
        by: 'operator',
      })
  }
}
