/** Logs for tests, and what reading them gives. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { NOBODY, outcomes } from '../../src/log-files/batch.ts'
import { openLogs, type LogOptions } from '../../src/log-files/open.ts'

export const START_MS = Date.parse('2026-11-03T14:07:31.123Z')

export function logFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-logs-'))
  let written = 0
  return {
    folder,
    remove: () => rmSync(folder, { recursive: true }),
    write(content: string | Buffer): string {
      const file = join(folder, `log-${written++}`)
      writeFileSync(file, content)
      return file
    },
  }
}

/** A line of our own, written so long after the start; the writer's own order of fields. */
export const access = (afterMs: number, fields: object = {}): string =>
  `${JSON.stringify({ level: 'info', time: new Date(START_MS + afterMs).toISOString(), event: 'access', client: 'acme', key: 'acme-1', plan: 'pro', route: 'getPet', status: 200, ...fields })}\n`

/** Lines that no two of are the same: the key is their number. */
export const numbered = (count: number, stepMs: number): string[] =>
  Array.from({ length: count }, (_, at) => access(at * stepMs, { key: `key-${at}` }))

export async function readLogs(files: readonly string[], options?: LogOptions) {
  const logs = openLogs(files, options)
  const requests: { at: string; caller: string | undefined; outcome: string }[] = []
  const name = (at: number | undefined) => (at === NOBODY ? undefined : logs.names[at ?? 0])
  try {
    for await (const batch of logs.batches())
      for (let at = 0; at < batch.count; at++)
        requests.push({
          at: `${Math.round(((batch.atMs[at] ?? 0) - START_MS) * 1000) / 1000} ms`,
          caller: name(batch.caller[at]),
          outcome: outcomes[batch.outcome[at] ?? 0] ?? '',
        })
  } finally {
    await logs.close()
  }
  return { requests, reading: logs.reading, callers: requests.map(({ caller }) => caller) }
}
