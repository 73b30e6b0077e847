/** Logs for tests, and what reading them gives. */
import { openLogs, type LogOptions } from '../../../src/tools/log-files/open.ts'
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

export async function readLogs(files: readonly string[], options?: LogOptions) {
  const logs = openLogs(files, options)
  const requests: { at: string; caller: string | undefined; outcome: string }[] = []
  for await (const rows of logs.batches())
    for (const { atMs, caller, outcome } of rows)
      requests.push({ at: `${Math.round((atMs - START_MS) * 1000) / 1000} ms`, caller, outcome })
  return { requests, reading: logs.reading, callers: requests.map(({ caller }) => caller) }
}
