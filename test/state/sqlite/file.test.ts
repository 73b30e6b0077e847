import { once } from 'node:events'
import { randomBytes } from 'node:crypto'
import { execFileSync, fork } from 'node:child_process'
import { cpSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { beforeEach, describe, expect, it, vi } from 'vitest'
import type { FileEvent } from '../../../src/state/sqlite/thread.ts'
import { temporaryFile, temporaryFolder } from '../../support/processes.ts'
import { openSqliteFile } from '../../../src/state/sqlite/file.ts'
import type { OnFileEvent, SqliteFile } from '../../../src/state/sqlite/file.ts'

let folder: string
let file: string
beforeEach(() => {
  folder = temporaryFolder()
  file = join(folder, 'store.db')
})

const neverDamaged: OnFileEvent = (event) => {
  throw new Error(JSON.stringify(event))
}
const open = (onEvent: OnFileEvent = neverDamaged) => openSqliteFile(file, onEvent)

const insert = 'INSERT INTO bans (key_id, until_ms, count, started_ms) VALUES (?, 1, 1, 1)'
const keyIds = async (store: SqliteFile) =>
  (await store.read('SELECT key_id FROM bans')).map(({ key_id: id }) => id)

/** A file of another program, or of another release. */
function write(sql: string): void {
  const database = new DatabaseSync(file)
  database.exec(sql)
  database.close()
}

/** A file as a gateway has left it, with enough rows to have many pages. */
async function writeStore(): Promise<void> {
  const store = open()
  await store.writeRows({
    sql: insert,
    columns: [Array.from({ length: 2_000 }, (_, n) => `key-${n}`)],
  })
  await store.close()
}

describe('store.file', () => {
  it('writes all rows of a call or none, and goes on after a fault', async () => {
    const store = open()
    await expect(
      store.writeRows({ sql: insert, columns: [['one', 'two', 'one']] }),
    ).rejects.toThrow(`store.file ${file} failed: UNIQUE constraint failed: bans.key_id`)
    expect(await keyIds(store)).toEqual([])
    await store.write(insert, 'one')
    expect(await keyIds(store)).toEqual(['one'])
    await store.close()
  })

  it('may be closed twice, and opened again', async () => {
    const store = open()
    await store.write(insert, 'one')
    await store.close()
    await store.close()
    await expect(store.write(insert, 'two')).rejects.toThrow('is closed')
    const later = open()
    expect(await keyIds(later)).toEqual(['one'])
    await later.close()
  })

  it('says that the disk is full, and is whole again when there is room', async () => {
    const store = open()
    const [before] = await store.read('PRAGMA page_count')
    await store.read(`PRAGMA max_page_count = ${Number(before?.['page_count'])}`)
    const many = Array.from({ length: 5_000 }, (_, n) => `key-${n}`)
    await expect(store.writeRows({ sql: insert, columns: [many] })).rejects.toThrow(
      `store.file ${file} cannot be written, as the disk is full; make room`,
    )
    expect(await keyIds(store)).toEqual([])
    await store.read('PRAGMA max_page_count = 100000')
    await store.writeRows({ sql: insert, columns: [many] })
    expect(await keyIds(store)).toHaveLength(5_000)
    await store.close()
  })

  it('that cannot be opened says that its file system is read-only', () => {
    // A mount of the test's own, which no other process sees and which ends with it.
    const module = new URL('../../../src/state/sqlite/file.ts', import.meta.url).href
    const script = `
      const { openSqliteFile } = await import('${module}')
      const { execFileSync } = await import('node:child_process')
      execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', '${folder}'])
      const attempt = () =>
        openSqliteFile('${file}', () => {}).read('').catch(({ message }) => console.log(message))
      const remount = (how) => execFileSync('mount', ['-o', 'remount,' + how, '${folder}'])
      remount('ro')
      await attempt()
      remount('rw')
      await openSqliteFile('${file}', () => {}).close()
      remount('ro')
      await attempt()
      process.exit(0)`
    const program = temporaryFile('read-only.mjs', script)
    const command = ['--map-root-user', '--mount', process.execPath, program]
    const said = execFileSync('unshare', command, {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const fault = `store.file ${file} cannot be written, as its file system is mounted read-only; mount it writable, or name another file`
    expect(said).toBe(`${fault}\n${fault}\n`)
  })

  it('of no bytes is begun, as a crash in the very first moment leaves it', async () => {
    writeFileSync(file, '')
    const store = open()
    expect(await keyIds(store)).toEqual([])
    await store.close()
    expect(readdirSync(folder)).toEqual(['store.db'])
  })
})

describe('a damaged store.file', () => {
  const damages: [string, () => void | Promise<void>][] = [
    ['was cut off within a page', () => writeStore().then(() => truncateSync(file, 9_000))],
    ['was cut off after its first page', () => writeStore().then(() => truncateSync(file, 4_096))],
    [
      'has a torn page',
      async () => {
        await writeStore()
        writeFileSync(file, readFileSync(file).fill(0xff, 25_000, 28_000))
      },
    ],
    [
      'has columns of something else',
      () => write('PRAGMA application_id = 0x746f6c6c; CREATE TABLE bans (name TEXT)'),
    ],
  ]
  it.each(damages)('that %s is kept under another name, and a new one begun', async (_, damage) => {
    await damage()
    const damaged = readFileSync(file)
    const onEvent = vi.fn<OnFileEvent>()
    const store = open(onEvent)
    await store.write(insert, 'one')
    await store.close()
    expect(onEvent).toHaveBeenCalledOnce()
    const [event] = onEvent.mock.calls[0] ?? []
    const keptAs = event?.event === 'storeFileSetAside' ? event.keptAs : ''
    expect(keptAs).toMatch(/store\.db\.damaged-\d+$/)
    expect(readFileSync(keptAs).equals(damaged)).toBe(true)
    expect(readdirSync(folder)).toHaveLength(2)
    const again = open()
    expect(await keyIds(again)).toEqual(['one'])
    await again.close()
  })
})

describe('a store.file that is gone', () => {
  const [one, two, three] = ['one', 'two', 'three']
  const events: FileEvent[] = []
  const watched = () => open((event) => events.push(event))
  const restored = { event: 'storeFileRestored' }
  const names = () => events.map(({ event }) => event)
  beforeEach(() => void events.splice(0))
  const gone: [string, () => void][] = [
    ['removed', () => rmSync(file)],
    ['removed with its write-ahead log', () => ['-wal', ''].map((part) => rmSync(file + part))],
    ['removed with its folder', () => rmSync(folder, { recursive: true })],
  ]

  it.each(gone)('as it was %s, is written anew with all it held', async (_, remove) => {
    const store = watched()
    await store.write(insert, one)
    remove()
    await store.write(insert, two)
    await expect.poll(() => events).toMatchObject([{ ...restored, file }])
    await store.write(insert, three)
    expect(await keyIds(store)).toEqual(['one', 'three', 'two'])
    await store.close()
    expect(readdirSync(folder)).toEqual(['store.db'])
    const again = open()
    expect(await keyIds(again)).toEqual(['one', 'three', 'two'])
    await again.close()
  })

  it('leaves the file alone that stands in its place, and keeps nothing until that is moved away', async () => {
    const store = watched()
    await store.write(insert, one)
    rmSync(file)
    writeFileSync(file, 'a letter')
    await expect.poll(names).toEqual(['storeFileLost'])
    await expect(store.write(insert, two)).rejects.toThrow(
      `store.file ${file} was removed under the gateway and another file stands in its place; move that away`,
    )
    expect(readFileSync(file, 'utf8')).toBe('a letter')
    rmSync(file)
    await expect.poll(names).toEqual(['storeFileLost', 'storeFileRestored'])
    await store.write(insert, two)
    expect(await keyIds(store)).toEqual(['one', 'two'])
    await store.close()
  })
})

describe('a store.file that cannot be had', () => {
  const unusable =
    /^store\.file .* cannot be opened; it must be a file that this user may read and write.*; mend that, or name another file/

  const attempt = (path: string) => openSqliteFile(path, neverDamaged).read('SELECT 1')

  it('as it is a folder, or lies below a file, is refused with what to do', async () => {
    await expect(attempt(folder)).rejects.toThrow(unusable)
    writeFileSync(file, 'text')
    for (const path of [join(file, 'below.db'), '/proc/tollgate.db', '/proc/tollgate/store.db'])
      await expect(attempt(path)).rejects.toThrow(unusable)
    expect(readFileSync(file, 'utf8')).toBe('text')
  })

  it('as it is a pipe or a device is refused, not waited for', async () => {
    execFileSync('mkfifo', [file])
    for (const path of [file, '/dev/zero']) await expect(attempt(path)).rejects.toThrow(unusable)
  })

  it.each([
    ['is missing', undefined, /thread\.ts/],
    ['throws', "throw new Error('no such binding')", /no such binding/],
  ])('as the program of its thread %s is refused at once', async (_, program, fault) => {
    cpSync(new URL('../../../src/state', import.meta.url), folder, { recursive: true })
    const copy = join(folder, 'sqlite')
    rmSync(join(copy, 'thread.ts'))
    if (program !== undefined) writeFileSync(join(copy, 'thread.ts'), program)
    const opener = join(folder, 'opener.mjs')
    writeFileSync(
      opener,
      `import { openSqliteFile } from './sqlite/file.ts'
       openSqliteFile(process.argv[2]).read('').catch(({ message }) => process.send({ message }))`,
    )
    const child = fork(opener, [file], { execArgv: [] })
    const [told] = (await once(child, 'message')) as [{ message: string }]
    // Not that it does not answer, which is said after ten seconds.
    expect(told.message).toMatch(new RegExp(`^store\\.file ${file} failed: its thread has ended: `))
    expect(told.message).toMatch(fault)
    child.kill()
  })

  const noDatabase = 'is not an SQLite database'
  const foreign = 'belongs to another program; name another file'
  const newer =
    'was written by a newer release (its layout is 2, this one knows 1); start that release, or name another file'
  const notes = 'CREATE TABLE notes (text TEXT)'
  const marked = (id: string, more: string) => `PRAGMA application_id = ${id}; ${more}`
  it.each<[string, () => void, string]>([
    ['holds random bytes', () => writeFileSync(file, randomBytes(10_000)), noDatabase],
    ['holds a few bytes', () => writeFileSync(file, 'some notes'), noDatabase],
    ['holds the tables of something else', () => write(notes), foreign],
    ['holds other bans', () => write('CREATE TABLE bans (name TEXT)'), foreign],
    [
      'holds the tables of something else, and is damaged',
      () => (write(notes), truncateSync(file, 4_096)),
      'is damaged; move it away',
    ],
    ['is marked by another program as its own', () => write(marked('0x70657473', notes)), foreign],
    [
      'was written by a newer release',
      () => write(marked('0x746f6c6c', 'PRAGMA user_version = 2; CREATE TABLE quota (hash BLOB)')),
      newer,
    ],
  ])('as it %s is refused and left as it is', async (_, make, fault) => {
    make()
    const bytes = readFileSync(file)
    await expect(attempt(file)).rejects.toThrow(`store.file ${file} ${fault}`)
    expect(readFileSync(file)).toEqual(bytes)
    expect(readdirSync(folder)).toEqual(['store.db'])
  })
})
