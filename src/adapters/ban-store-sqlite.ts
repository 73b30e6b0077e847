/** Keeps bans in a SQLite file, so that they survive a restart of a gateway without Redis. */
import { mkdirSync, renameSync, existsSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { toBan, type BanRecord } from '../rules/ban-policy.ts'
import type { BanStore, BanStoreListener } from './ban-store.ts'

/** SQLITE_CORRUPT and SQLITE_NOTADB: nothing in the file can be trusted. */
const damage = new Set([11, 26])

/**
 * Opens the file, making it and its directory where missing. A damaged file is renamed to FILE.damaged-<Unix ms> and
 * a new one begun: lost bans must not keep the gateway from starting. `onDamaged` is told the new name.
 * Throws an Error with the file's name when it cannot be opened for another reason (a directory, no permission).
 */
export function createSqliteBanStore(file: string, onDamaged: (keptAs: string) => void): BanStore {
  const database = openOrReplace(file, onDamaged)
  const all = database.prepare('SELECT key_id, until_ms, count, started_ms FROM bans')
  const put = database.prepare(
    `INSERT INTO bans (key_id, until_ms, count, started_ms) VALUES (?, ?, ?, ?)
     ON CONFLICT (key_id) DO UPDATE SET until_ms = excluded.until_ms, count = excluded.count, started_ms = excluded.started_ms`,
  )
  const remove = database.prepare('DELETE FROM bans WHERE key_id = ? AND until_ms = ?')
  let listener: BanStoreListener | undefined
  // Bans are rare and rows are few: a write is one short transaction, made at once. `async` turns what SQLite throws into a rejection.
  return {
    watch: (newListener) => {
      listener = newListener
      listener.stale()
    },
    load: async () => {
      const bans = new Map<string, BanRecord>()
      for (const row of all.all()) {
        const { key_id: keyId, until_ms: untilMs, count, started_ms: startedMs } = row
        const ban = toBan({ untilMs, count, startedMs })
        if (ban && typeof keyId === 'string') bans.set(keyId, ban)
        else listener?.malformed(`a row of ${file}`)
      }
      return bans
    },
    save: async (keyId, ban) => void put.run(keyId, ban.untilMs, ban.count, ban.startedMs),
    forget: async (keyId, ban) => void remove.run(keyId, ban.untilMs),
    close: async () => database.close(),
  }
}

function openOrReplace(file: string, onDamaged: (keptAs: string) => void): DatabaseSync {
  try {
    mkdirSync(dirname(file), { recursive: true })
    try {
      return open(file)
    } catch (error) {
      if (!isDamage(error)) throw error
    }
    onDamaged(setAside(file))
    return open(file)
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`store.file ${file}: ${reason}`, { cause })
  }
}

function open(file: string): DatabaseSync {
  const database = new DatabaseSync(file, { timeout: 1_000 })
  try {
    const [check] = database.prepare('PRAGMA quick_check(1)').all()
    if (check?.['quick_check'] !== 'ok') throw new DamagedFile()
    database.exec(
      `PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
       CREATE TABLE IF NOT EXISTS bans (
         key_id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL, count INTEGER NOT NULL, started_ms INTEGER NOT NULL
       ) STRICT, WITHOUT ROWID;
       SELECT key_id, until_ms, count, started_ms FROM bans LIMIT 1`,
    )
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

class DamagedFile extends Error {}

function isDamage(error: unknown): boolean {
  if (error instanceof DamagedFile) return true
  const code = error instanceof Error && 'errcode' in error ? error.errcode : undefined
  // Extended codes carry the primary one in their low byte.
  return typeof code === 'number' && damage.has(code & 0xff)
}

function setAside(file: string): string {
  const keptAs = `${file}.damaged-${Date.now()}`
  for (const part of ['', '-wal', '-shm'])
    if (existsSync(file + part)) renameSync(file + part, keptAs + part)
  return keptAs
}
