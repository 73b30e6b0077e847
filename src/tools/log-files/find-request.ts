/** Finds requests in Tollgate's access logs by their id. A file is read as a stream, and only what is asked for is kept. */
import type { BanRecord } from '../../state/bans.ts'
import { findLogs, Input } from './input.ts'
import { MAX_LINE_BYTES } from './line-reader.ts'
import { Lines } from './lines.ts'
import { unpacked } from './unpack.ts'

type Fields = Readonly<Record<string, unknown>>

export interface FoundRequest {
  readonly line: number
  readonly fields: Fields
  /** Revision of the last configuration logged before the request; undefined: none. */
  readonly revision: string | undefined
  /** The last ban of the request's key logged before it; undefined: none. */
  readonly ban: BanRecord | undefined
}

export interface FoundRequests {
  /** The first requests with this id, MOST_FOUND at most. */
  readonly found: readonly FoundRequest[]
  readonly lines: number
  /** The packed data ends too early, or is damaged from some byte on. */
  readonly isCutOff: boolean
}

export const MOST_FOUND = 20
const CHUNK_BYTES = 256 * 1024
const NEWLINE = 0x0a
const MOST_BANS = 100_000

const taken = Buffer.from('"event":"configTaken"')
const banned = Buffer.from('"event":"keyBanned"')
const acts = Buffer.from('"event":"audit"')

/** Reads a file, packed or not; `-` is the standard input. Rejects with a LogFileFault if it cannot be read. */
export async function findRequests(file: string, id: string): Promise<FoundRequests> {
  const found: FoundRequest[] = []
  const bans = new Map<string, BanRecord>()
  const needles = [Buffer.from(JSON.stringify(id)), taken, banned, acts]
  let revision: string | undefined
  let count = 0
  const look = (line: Buffer): void => {
    count += 1
    if (line.length > MAX_LINE_BYTES || !needles.some((needle) => line.includes(needle))) return
    const fields = read(line)
    const { event, key } = fields
    if (event === 'configTaken') revision = textOf(fields['revision'])
    if (event === 'keyBanned' || event === 'audit') note(bans, fields)
    if (event !== 'access' || fields['id'] !== id || found.length === MOST_FOUND) return
    found.push({ line: count, fields, revision, ban: bans.get(String(key)) })
  }
  const lines = new Lines((bytes, from) => {
    const end = bytes.indexOf(NEWLINE, from)
    look(bytes.subarray(from, end))
    return end
  })
  const state = { file, readBytes: 0, isCutOff: false }
  for (const log of findLogs([file])) {
    const input = new Input(log, new Set())
    try {
      for await (const chunk of unpacked(input, state, CHUNK_BYTES)) lines.push(chunk)
    } finally {
      input.close()
    }
  }
  lines.end()
  return { found, lines: count, isCutOff: state.isCutOff }
}

export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined

function read(line: Buffer): Fields {
  try {
    const fields: unknown = JSON.parse(line.toString())
    return typeof fields === 'object' && fields !== null ? (fields as Fields) : {}
  } catch {
    // The line is torn, or of another program.
    return {}
  }
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
