import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { createSqliteBanStore } from '../../../src/state/sqlite/bans.ts'
import type { OnFileEvent } from '../../../src/state/sqlite/file.ts'
import { temporaryFolder } from '../../support/processes.ts'

const ban = { untilMs: 1_790_000_000_000, count: 2, startedMs: 1_789_999_000_000 }
const neverDamaged: OnFileEvent = (event) => {
  throw new Error(JSON.stringify(event))
}

describe('bans in a SQLite file', () => {
  it('are there after a crash, as each is written at once', async () => {
    const folder = temporaryFolder()
    const [file, left] = [join(folder, 'crash.db'), join(folder, 'left.db')]
    const store = createSqliteBanStore(file, neverDamaged)
    await store.save('acme-1', { ...ban, count: 1 })
    await store.save('acme-1', ban)
    await store.save('other', ban)
    await store.forget('other', ban)
    // What a crash at this moment would leave.
    for (const part of ['', '-wal']) copyFileSync(file + part, left + part)
    const reader = createSqliteBanStore(left, neverDamaged)
    expect([...(await reader.load())]).toEqual([['acme-1', ban]])
    expect([...(await reader.load('acme-1'))]).toEqual([['acme-1', ban]])
    expect((await reader.load('other')).size).toBe(0)
    await reader.close()
    await store.close()
  })

  it('that make no sense are passed over and told', async () => {
    const store = createSqliteBanStore(join(temporaryFolder(), 'malformed.db'), neverDamaged)
    const malformed = vi.fn()
    store.watch({ banned: vi.fn(), stale: vi.fn(), malformed })
    await store.save('bad', { untilMs: 5, count: 0, startedMs: 1 })
    await store.save('acme-1', ban)
    expect([...(await store.load()).keys()]).toEqual(['acme-1'])
    expect(malformed).toHaveBeenCalledOnce()
    await store.close()
  })
})
