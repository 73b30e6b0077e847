/** Logs for tests, and what reading them gives. */
import {
  NO_NAME,
  outcomes,
  type LogNote,
  type OpenedLogs,
} from '../../../src/tools/log-files/batch.ts'
import { makeColumns } from '../../../src/tools/log-files/columns.ts'
import { findLogs } from '../../../src/tools/log-files/input.ts'
import { merge } from '../../../src/tools/log-files/merge.ts'
import { Names } from '../../../src/tools/log-files/names.ts'
import { openLogs, type LogOptions } from '../../../src/tools/log-files/open.ts'
import { noCounts } from '../../../src/tools/log-files/source.ts'
import { temporaryFile } from '../../support/processes.ts'

export const START_MS = Date.parse('2026-11-03T14:07:31.123Z')

/** Content in a file, whose folder goes with the test file. */
export const write = (content: string | Buffer): string => temporaryFile('access.log', content)

/** A line of our own, written so long after the start; the writer's own order of fields. */
export const access = (afterMs: number, fields: object = {}): string =>
  `${JSON.stringify({ level: 'info', time: new Date(START_MS + afterMs).toISOString(), event: 'access', client: 'acme', key: 'acme-1', plan: 'pro', route: 'getPet', status: 200, ...fields })}\n`

/** Lines that no two of are the same: the key is their number. */
export const numbered = (count: number, stepMs: number): string[] =>
  Array.from({ length: count }, (_, at) => access(at * stepMs, { key: `key-${at}` }))

/** As openLogs does, but for its thread: to start one costs more than to read what most tests have. */
export function openHere(files: readonly string[], options: LogOptions = {}): OpenedLogs {
  const [names, counts] = [new Names(), noCounts()]
  const [told, notes] = [new Array<string>(), new Array<LogNote>()]
  const empty = () => makeColumns(8_192)
  const note = (line: LogNote) => notes.push(line)
  const merging = { windowMs: 60_000, fields: undefined, ...options, names, counts, note, empty }
  async function* batches() {
    for await (const { columns, count } of merge(findLogs(files), merging)) {
      told.push(...names.takeNew())
      yield { ...columns, count }
    }
    told.push(...names.takeNew())
  }
  return {
    names: told,
    notes,
    batches,
    close: () => Promise.resolve(),
    get reading() {
      return { files, totalBytes: undefined, ...counts }
    },
  }
}

export const readInThread = (files: readonly string[], options?: LogOptions) =>
  readLogs(files, options, openLogs)

export async function readLogs(
  files: readonly string[],
  options?: LogOptions,
  open: typeof openLogs = openHere,
) {
  const logs = open(files, options)
  const requests: { at: string; caller: string | undefined; outcome: string }[] = []
  const name = (at: number | undefined) => (at === NO_NAME ? undefined : logs.names[at ?? 0])
  try {
    for await (const { count, atMs, caller, outcome } of logs.batches())
      for (let nth = 0; nth < count; nth++)
        requests.push({
          at: `${Math.round(((atMs[nth] ?? 0) - START_MS) * 1000) / 1000} ms`,
          caller: name(caller[nth]),
          outcome: outcomes[outcome[nth] ?? 0] ?? '',
        })
  } finally {
    await logs.close()
  }
  return { requests, reading: logs.reading, callers: requests.map(({ caller }) => caller) }
}
