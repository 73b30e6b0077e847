import { existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { beforeEach, describe, expect, it } from 'vitest'
import { startCatalogue } from '../../../src/tools/catalogue/server.ts'
import { restarted, runCatalogue, textUntilClose } from './running-catalogue.ts'
import type { Reply, RunningCatalogue } from './running-catalogue.ts'

let service: RunningCatalogue
beforeEach(async () => {
  service = await runCatalogue()
})

const get = (path: string): Promise<Reply> => service.send('GET', path)
const pet = '{"name":"Bella","categoryId":1}'
const head = (length: number): string =>
  `POST /v1/pets HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`

/** Runs SQL on the file from outside, as an operator would. */
function onFile(file: string, sql: string): void {
  const database = new DatabaseSync(file)
  database.exec(sql)
  database.close()
}

const log = (): void => undefined

const failureOf = async (file: string): Promise<string> => {
  const starting = startCatalogue({ host: '127.0.0.1', port: 0, file, log })
  const error: unknown = await starting.then(
    () => undefined,
    (fault: unknown) => fault,
  )
  expect(error).toBeInstanceOf(Error)
  return (error as Error).message
}

describe('data', () => {
  it('survives a restart, and ids go on where they were', async () => {
    await service.create('{"name":"A","categoryId":9007199254740993,"status":"sold"}')
    await service.create('{"name":"B","categoryId":1}')
    const before = (await get('/v1/pets')).text
    service = await restarted(service)
    expect((await get('/v1/pets')).text).toBe(before)
    expect(JSON.parse((await service.create(pet)).text)).toMatchObject({ id: 3 })
  })

  it('never gives an id out twice, even after the newest animal was deleted', async () => {
    await service.create(pet)
    await service.create(pet)
    onFile(service.file, 'DELETE FROM pets WHERE id = 2')
    expect((await service.create(pet)).headers.location).toBe('/v1/pets/3')
  })

  it('keeps every digit of ids beyond 2^53, in bodies, addresses and cursors', async () => {
    await service.create(pet)
    onFile(service.file, "UPDATE sqlite_sequence SET seq = 9007199254740992 WHERE name = 'pets'")
    const created = await service.create(pet)
    expect(created.text).toBe('{"id":9007199254740993,"name":"Bella","categoryId":1}')
    expect(created.headers.location).toBe('/v1/pets/9007199254740993')
    expect((await get('/v1/pets/9007199254740993')).text).toBe(created.text)
    expect((await get('/v1/pets/9007199254740992')).status).toBe(404)
    await service.create(pet)
    const cursor = Buffer.from('9007199254740993').toString('base64url')
    expect((await get(`/v1/pets?cursor=${cursor}`)).text).toBe(
      '[{"id":9007199254740994,"name":"Bella","categoryId":1}]',
    )
  })

  it('is seeded once, only when asked and only when there is nothing', async () => {
    expect((await get('/v1/pets')).text).toBe('[]')
    service = await restarted(service, true)
    const seeded = (await get('/v1/pets')).text
    expect((JSON.parse(seeded) as unknown[]).length).toBeGreaterThan(2)
    service = await restarted(service, true)
    expect((await get('/v1/pets')).text).toBe(seeded)
  })
})

describe('a failing database', () => {
  it('is a 500 without details for the client, with details in the log, and not the end', async () => {
    await service.create(pet)
    onFile(service.file, "UPDATE sqlite_sequence SET seq = 9223372036854775807 WHERE name = 'pets'")
    const reply = await service.create(pet)
    const message = 'The service could not complete the request.'
    const told = { code: 'internal_error', message, status: 500 }
    expect([reply.status, JSON.parse(reply.text)]).toEqual([500, told])
    expect(service.logged).toEqual([expect.stringMatching(/POST failed: .*full/)])
    expect((await get('/v1/pets/1')).status).toBe(200)
  })
})

describe('a file that cannot be used', () => {
  it('that is a folder says what is needed', async () => {
    const file = join(service.folder, 'folder.db')
    mkdirSync(file)
    expect(await failureOf(file)).toMatch(/folder\.db": it cannot be opened; it must be a file/)
  })

  it('that is no database is named and left as it was', async () => {
    const file = join(service.folder, 'notes.txt')
    const notes = 'feed the cats\n'.repeat(500)
    writeFileSync(file, notes)
    expect(await failureOf(file)).toMatch(/notes\.txt": it is not an SQLite database; name another/)
    expect(readFileSync(file, 'utf8')).toBe(notes)
  })

  it('that belongs to another program is left as it was', async () => {
    const file = join(service.folder, 'other.db')
    onFile(file, 'CREATE TABLE pets (colour TEXT)')
    const before = readFileSync(file)
    expect(await failureOf(file)).toMatch(/other\.db": it belongs to another program/)
    expect(readFileSync(file).equals(before)).toBe(true)
  })

  it('of a later schema is refused', async () => {
    await service.catalogue.close()
    onFile(service.file, 'PRAGMA user_version = 2')
    expect(await failureOf(service.file)).toMatch(/schema version 2, this program knows 1/)
  })

  it('that is damaged or cut short is refused at start', async () => {
    for (let index = 0; index < 100; index++) {
      await service.create(`{"name":"${'x'.repeat(200)}","categoryId":${index}}`)
    }
    await service.catalogue.close()
    const whole = readFileSync(service.file)
    truncateSync(service.file, Math.floor(whole.length / 2))
    expect(await failureOf(service.file)).toMatch(/pets\.db": it is damaged; restore it/)
    writeFileSync(service.file, whole.fill(0xa5, 4096, 8192))
    expect(await failureOf(service.file)).toMatch(/pets\.db": it is damaged; restore it/)
  })

  it('is let go of after a failed start, so that a mended one can follow', async () => {
    const { port } = service.catalogue.address
    const file = join(service.folder, 'second.db')
    const taken = startCatalogue({ host: '127.0.0.1', port, file, log })
    await expect(taken).rejects.toMatchObject({ code: 'EADDRINUSE' })
    expect(existsSync(`${file}-wal`)).toBe(false)
    const second = await startCatalogue({ host: '127.0.0.1', port: 0, file, log })
    await second.close()
  })
})

describe('close', () => {
  it('finishes the request in flight, says Connection: close, and keeps the animal', async () => {
    const socket = await service.socket()
    const answer = textUntilClose(socket)
    socket.write(head(pet.length) + pet.slice(0, 5))
    // The answer to a second request shows that the service has read the head of the first.
    expect((await get('/v1/pets')).text).toBe('[]')
    let closed = false
    const closing = service.catalogue.close().then(() => (closed = true))
    await expect(service.send('GET', '/v1/pets')).rejects.toThrow()
    expect(closed).toBe(false)
    socket.write(pet.slice(5))
    expect(await answer).toMatch(/^HTTP\/1\.1 201 .*connection: close.*"name":"Bella"/is)
    await closing
    service = await restarted(service)
    expect((await get('/v1/pets/1')).status).toBe(200)
  })

  it('does not wait for idle connections, may be called twice, and leaves one whole file', async () => {
    const socket = await service.socket()
    const answer = textUntilClose(socket)
    socket.write('GET /v1/pets HTTP/1.1\r\nHost: x\r\n\r\n')
    await once(socket, 'data')
    await service.create(pet)
    await Promise.all([service.catalogue.close(), service.catalogue.close()])
    expect(await answer).toContain('200 OK')
    expect(existsSync(`${service.file}-wal`)).toBe(false)
    const database = new DatabaseSync(service.file)
    expect(database.prepare('SELECT name FROM pets').get()).toMatchObject({ name: 'Bella' })
    database.close()
  })

  it('does not wait for a connection that never sent a request', async () => {
    const socket = await service.socket()
    const answer = textUntilClose(socket)
    // Connections are accepted in order: an answer on a later one shows that this one was accepted.
    expect((await get('/v1/pets')).status).toBe(200)
    const outcome = await Promise.race([
      service.catalogue.close().then(() => 'closed'),
      new Promise((resolve) => setTimeout(resolve, 8_000, 'still waiting')),
    ])
    expect(outcome).toBe('closed')
    expect(await answer).toBe('')
  })
})

describe('connections', () => {
  it('stay open between requests, longer than a gateway keeps idle ones', async () => {
    const first = await get('/v1/pets')
    expect(first.headers.connection).toBe('keep-alive')
    expect(first.headers['keep-alive']).toBe('timeout=65')
  })

  it('that break off in the middle of a body store nothing and log nothing', async () => {
    const socket = await service.socket()
    socket.write(head(pet.length) + pet.slice(0, 5))
    expect((await get('/v1/pets')).status).toBe(200)
    socket.destroy()
    await service.catalogue.close()
    expect(service.logged).toEqual([])
    service = await restarted(service)
    expect((await get('/v1/pets')).text).toBe('[]')
  })

  it('with heads of 40 KiB are served, as a gateway adds headers to what it lets through', async () => {
    const headers = { 'x-long': 'x'.repeat(40 * 1024) }
    expect((await service.send('GET', '/v1/pets', { headers })).status).toBe(200)
  })
})
