/** Keeps bans in store.file, so that they survive a restart of a gateway without Redis. */
import { toBan, type BanRecord } from '../rules/ban-policy.ts'
import type { BanStore, BanStoreListener } from './ban-store.ts'
import { openSqliteFile } from '../sqlite/file.ts'

const all = 'SELECT key_id, until_ms, count, started_ms FROM bans'
const put = `INSERT INTO bans (key_id, until_ms, count, started_ms) VALUES (?, ?, ?, ?)
  ON CONFLICT (key_id) DO UPDATE SET until_ms = excluded.until_ms, count = excluded.count, started_ms = excluded.started_ms`
const remove = 'DELETE FROM bans WHERE key_id = ? AND until_ms = ?'

/** Opens or joins the file; see openSqliteFile. Throws an Error with file, fault and remedy. */
export function createSqliteBanStore(file: string, onDamaged: (keptAs: string) => void): BanStore {
  const store = openSqliteFile(file, onDamaged)
  let listener: BanStoreListener | undefined
  const numbers = (...values: number[]): Float64Array[] =>
    values.map((value) => Float64Array.of(value))
  // Bans are rare and rows are few: each is a transaction of its own, made at once.
  return {
    watch: (newListener) => {
      listener = newListener
      listener.stale()
    },
    load: async () => {
      const bans = new Map<string, BanRecord>()
      for (const row of await store.read(all)) {
        const { key_id: keyId, until_ms: untilMs, count, started_ms: startedMs } = row
        const ban = toBan({ untilMs, count, startedMs })
        if (ban && typeof keyId === 'string') bans.set(keyId, ban)
        else listener?.malformed(`a row of ${file}`)
      }
      return bans
    },
    save: (keyId, { untilMs, count, startedMs }) =>
      store.write(put, [[keyId], ...numbers(untilMs, count, startedMs)]),
    forget: (keyId, { untilMs }) => store.write(remove, [[keyId], ...numbers(untilMs)]),
    close: () => store.close(),
  }
}
