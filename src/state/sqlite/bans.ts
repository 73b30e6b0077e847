/** Keeps bans in store.file, so that they survive a restart of a gateway without Redis. */
import type { BanStore, BanStoreListener, BanRecord } from '../bans.ts'
import { openSqliteFile, type OnFileEvent } from './file.ts'
import { toBan } from '../stored-ban.ts'

const columns = ['key_id', 'until_ms', 'count', 'started_ms', 'epoch_ms', 'made_by', 'reason']
const all = `SELECT ${columns.join()} FROM bans`
const one = `${all} WHERE key_id = ?`
/** Keeps the row where its author knew of a later act of an operator than the author of the new ban. */
const put = `INSERT INTO bans (${columns.join()}) VALUES (?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (key_id) DO UPDATE SET ${columns.map((name) => `${name} = excluded.${name}`).join()}
  WHERE coalesce(excluded.epoch_ms, 0) >= coalesce(epoch_ms, 0)`
const remove = 'DELETE FROM bans WHERE key_id = ? AND until_ms = ?'

/** The value of a column in one row; an absent value becomes NULL. */
const given = <T>(value: T | undefined): T[] => (value === undefined ? [] : [value])

/** Opens or joins the file; see openSqliteFile. Throws an Error with file, fault and remedy. */
export function createSqliteBanStore(file: string, onFileEvent: OnFileEvent): BanStore {
  const store = openSqliteFile(file, onFileEvent)
  let listener: BanStoreListener | undefined
  const numbers = (...values: number[]): Float64Array[] =>
    values.map((value) => Float64Array.of(value))
  // Bans are rare and rows are few, so that each is a transaction of its own, made at once.
  return {
    watch: (newListener) => {
      listener = newListener
      listener.stale()
    },
    load: async (wanted) => {
      const bans = new Map<string, BanRecord>()
      const rows = await (wanted === undefined ? store.read(all) : store.read(one, wanted))
      for (const row of rows) {
        const { key_id: keyId, until_ms: untilMs, count, started_ms: startedMs } = row
        const { epoch_ms: epochMs, made_by: by, reason } = row
        const ban = toBan({
          untilMs,
          count,
          startedMs,
          epochMs: epochMs ?? undefined,
          by: by ?? undefined,
          reason: reason ?? undefined,
        })
        if (ban && typeof keyId === 'string') bans.set(keyId, ban)
        else listener?.malformed(`a row of ${file}`)
      }
      return bans
    },
    save: (keyId, { untilMs, count, startedMs, epochMs, by, reason }) =>
      store.write(put, [
        [keyId],
        ...numbers(untilMs, count, startedMs),
        Float64Array.from(given(epochMs)),
        given(by),
        given(reason),
      ]),
    forget: (keyId, { untilMs }) => store.write(remove, [[keyId], ...numbers(untilMs)]),
    close: () => store.close(),
  }
}
