import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { createSqliteBanStore } from '../../../src/state/sqlite/bans.ts'
import { openSqliteFile } from '../../../src/state/sqlite/file.ts'
import { gatewayEnds } from '../../support/ending.ts'
import { temporaryFolder } from '../../support/processes.ts'

const ban = { untilMs: 1_790_000_000_000, count: 2, startedMs: 1_789_999_000_000 }
/** The store in a file that is never damaged. */
function openBans(path: string) {
  const file = openSqliteFile(path, (event) => {
    throw new Error(JSON.stringify(event))
  })
  gatewayEnds(() => file.close())
  return createSqliteBanStore(file)
}

describe('bans in a SQLite file', () => {
  it('are there after a crash, as each is written at once', async () => {
    const folder = temporaryFolder()
    const [file, left] = [join(folder, 'crash.db'), join(folder, 'left.db')]
    const store = openBans(file)
    await store.save('acme-1', { ...ban, count: 1 })
    await store.save('acme-1', ban)
    await store.save('other', ban)
    await store.forget('other', ban)
    // What a crash at this moment would leave.
    for (const part of ['', '-wal']) copyFileSync(file + part, left + part)
    const reader = openBans(left)
    expect([...(await reader.load())]).toEqual([['acme-1', ban]])
    expect([...(await reader.load('acme-1'))]).toEqual([['acme-1', ban]])
    expect((await reader.load('other')).size).toBe(0)
  })

  it('that make no sense are passed over', async () => {
    const store = openBans(join(temporaryFolder(), 'malformed.db'))
    await store.save('bad', { untilMs: 5, count: 0, startedMs: 1 })
    await store.save('acme-1', ban)
    expect([...(await store.load()).keys()]).toEqual(['acme-1'])
  })
})
