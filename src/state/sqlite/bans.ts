/** Keeps bans in store.file, so that they survive a restart of a gateway without Redis. */
import { toBan, type BanRecord, type BanStore } from '../bans.ts'
import type { SqliteFile } from './file.ts'

/** The column of each member; a member that is absent is NULL. */
const columnOf = {
  keyId: 'key_id',
  untilMs: 'until_ms',
  count: 'count',
  startedMs: 'started_ms',
  epochMs: 'epoch_ms',
  by: 'made_by',
  reason: 'reason',
} as const
const members = Object.keys(columnOf) as (keyof typeof columnOf)[]
const columns = Object.values(columnOf)

const all = `SELECT ${members.map((name) => `${columnOf[name]} AS ${name}`).join()} FROM bans`
const one = `${all} WHERE key_id = ?`
/** Keeps the row where its author knew of a later act of an operator than the author of the new ban. */
const put = `INSERT INTO bans (${columns.join()}) VALUES (${columns.map(() => '?').join()})
  ON CONFLICT (key_id) DO UPDATE SET ${columns.map((name) => `${name} = excluded.${name}`).join()}
  WHERE coalesce(excluded.epoch_ms, 0) >= coalesce(epoch_ms, 0)`
const remove = 'DELETE FROM bans WHERE key_id = ? AND until_ms = ?'

export function createSqliteBanStore(store: SqliteFile): BanStore {
  // Bans are rare and rows are few, so that each is a transaction of its own, made at once.
  return {
    watch: (listener) => listener.stale(),
    load: async (wanted) => {
      const bans = new Map<string, BanRecord>()
      const rows = await (wanted === undefined ? store.read(all) : store.read(one, wanted))
      for (const { keyId, ...row } of rows) {
        const ban = toBan(Object.fromEntries(Object.entries(row).filter(([, is]) => is !== null)))
        if (ban && typeof keyId === 'string') bans.set(keyId, ban)
      }
      return bans
    },
    save: (keyId, ban) => {
      const row = { keyId, ...ban }
      return store.write(put, ...members.map((name) => row[name] ?? null))
    },
    forget: (keyId, { untilMs }) => store.write(remove, keyId, untilMs),
  }
}
