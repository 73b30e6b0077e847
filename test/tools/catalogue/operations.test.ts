import { beforeEach, describe, expect, it } from 'vitest'
import { runCatalogue, type Reply } from './running-catalogue.ts'
import { words } from '../../support/words.ts'

let service = await runCatalogue()
/** Behind a test that has stored an animal, a new one. */
beforeEach(async () => {
  if ((await get('/v1/pets')).text === '[]') return
  await service.remove()
  service = await runCatalogue()
})

const json = { 'content-type': 'application/json' }
const get = (path: string): Promise<Reply> => service.send('GET', path)

/** Asserts the whole Error resource and the headers every answer has. */
function expectError(
  reply: Reply,
  { status, code, naming }: { status: number; code: string; naming?: string },
) {
  const error = JSON.parse(reply.text) as Record<string, unknown>
  expect(reply.status).toBe(status)
  expect(Object.keys(error).sort()).toEqual(['code', 'message', 'status'])
  expect(error).toMatchObject({ code, status })
  expect(error['message']).toContain(naming ?? '')
  expect(reply.headers['content-type']).toBe('application/json; charset=utf-8')
  expect(reply.headers['content-length']).toBe(String(Buffer.byteLength(reply.text)))
}

describe('createPet', () => {
  it('answers 201 with the animal, its id and its address', async () => {
    const reply = await service.create('{"name":"Bella","categoryId":7,"status":"pending"}')
    expect(reply.status).toBe(201)
    expect(reply.text).toBe('{"id":1,"name":"Bella","categoryId":7,"status":"pending"}')
    expect(reply.headers.location).toBe('/v1/pets/1')
    expect(reply.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(reply.headers['content-length']).toBe(String(reply.text.length))
    expect((await get('/v1/pets/1')).text).toBe(reply.text)
  })

  it('leaves an absent status absent, in every answer', async () => {
    const pet = '{"id":1,"name":"Bella","categoryId":7}'
    expect((await service.create('{"name":"Bella","categoryId":7}')).text).toBe(pet)
    expect((await get('/v1/pets/1')).text).toBe(pet)
    expect((await get('/v1/pets')).text).toBe(`[${pet}]`)
  })

  const exact = '9007199254740993 -9007199254740993 9223372036854775807 -9223372036854775808 0 -0'
  it.each(words(exact))('keeps every digit of categoryId %s', async (digits) => {
    const reply = await service.create(`{"name":"Bella","categoryId":${digits}}`)
    const kept = digits === '-0' ? '0' : digits
    expect(reply.text).toBe(`{"id":1,"name":"Bella","categoryId":${kept}}`)
    expect((await get('/v1/pets/1')).text).toBe(reply.text)
    expect((await get('/v1/pets')).text).toBe(`[${reply.text}]`)
  })

  const noInt64 = '9223372036854775808 -9223372036854775809 1.0 1.5 1e3 1E400 "1" true null [1] {}'
  const noNames = words(String.raw`1 "" null true ["x"] {"a":1} "\ud800" "\udc00x" "a\u0000b"`)
  const noStatuses = words('"gone" "Available" "" null 1 ["sold"]')
  const nested = '['.repeat(500_000)
  it.each([
    ...[...words(noInt64), '9'.repeat(100_000)].map((it) => [
      'categoryId',
      `{"name":"A","categoryId":${it}}`,
    ]),
    ...noNames.map((it) => ['name', `{"categoryId":1,"name":${it}}`]),
    ...noStatuses.map((it) => ['status', `{"name":"A","categoryId":1,"status":${it}}`]),
    ...['{"name":"A"', '{"name":"A","categoryId":01}', '[]', 'null', '  ', '', nested].map((it) => [
      '',
      it,
    ]),
    ['', nested + nested.replaceAll('[', ']')],
  ])('answers 400, naming "%s", to %.60s', async (naming = '', body = '') => {
    expectError(await service.create(body), { status: 400, code: 'invalid_body', naming })
    expect((await get('/v1/pets')).text).toBe('[]')
    expect(service.logged).toEqual([])
  })

  it('bounds the name at 200 code points', async () => {
    const create = (name: string): Promise<Reply> =>
      service.create(JSON.stringify({ name, categoryId: 1 }))
    const longest = '\u{1F436}'.repeat(200)
    const kept = { id: 1, name: longest, categoryId: 1 }
    expect(JSON.parse((await create(longest)).text)).toEqual(kept)
    for (const tooLong of [`${longest}x`, 'x'.repeat(201), 'x'.repeat(500_000)])
      expectError(await create(tooLong), { status: 400, code: 'invalid_body', naming: 'name' })
  })

  it.each(['Zoë', '"quoted" \\ and /', 'line\nbreak\ttab\u0001', 'סוס', "'); DROP TABLE pets; --"])(
    'gives back the name %j as it was sent',
    async (name) => {
      await service.create(JSON.stringify({ name, categoryId: 1 }))
      expect(JSON.parse((await get('/v1/pets/1')).text)).toEqual({ id: 1, name, categoryId: 1 })
    },
  )

  it('names every wrong field at once', async () => {
    const reply = await service.create('{"status":"gone"}')
    for (const naming of ['name is required', 'categoryId is required', 'status']) {
      expectError(reply, { status: 400, code: 'invalid_body', naming })
    }
  })

  it('ignores members it does not know, and never stores an id from the client', async () => {
    const reply = await service.create(
      '{"id":99,"name":"Bella","categoryId":1,"owner":{"id":5},"__proto__":{"status":"sold"}}',
    )
    expect(reply.text).toBe('{"id":1,"name":"Bella","categoryId":1}')
    expect((await get('/v1/pets/99')).status).toBe(404)
  })

  it('takes the last of a repeated member', async () => {
    const reply = await service.create('{"name":"A","name":"B","categoryId":"x","categoryId":2}')
    expect(reply.text).toBe('{"id":1,"name":"B","categoryId":2}')
  })

  it('answers 400 to a body that is not UTF-8', async () => {
    const body = Buffer.from('{"name":"Zo\xeb","categoryId":1}', 'latin1')
    const reply = await service.send('POST', '/v1/pets', { body, headers: json })
    expectError(reply, { status: 400, code: 'invalid_body', naming: 'UTF-8' })
  })

  it('answers 400 to no body without a media type', async () => {
    const reply = await service.send('POST', '/v1/pets', { body: '' })
    expectError(reply, { status: 400, code: 'invalid_body' })
  })

  it.each([
    ...words('text/plain application/x-www-form-urlencoded application/jsonp nothing'),
    'application/json; charset=latin1',
    'application/json, text/plain',
    'application/json, in gzip',
  ])('answers 415 to %s', async (type) => {
    const [, media = '', gzip] = /^(.*?)(, in gzip)?$/.exec(type) ?? []
    const headers = {
      ...(type !== 'nothing' && { 'content-type': media }),
      ...(gzip !== undefined && { 'content-encoding': 'gzip' }),
    }
    const body = '{"name":"Bella","categoryId":1}'
    const reply = await service.send('POST', '/v1/pets', { body, headers })
    expectError(reply, { status: 415, code: 'unsupported_media_type' })
  })

  it.each([
    'application/json',
    'APPLICATION/JSON',
    'application/json;charset=utf-8',
    'application/json; charset="UTF-8"; profile=x',
  ])('takes the media type %s', async (type) => {
    const body = '{"name":"Bella","categoryId":1}'
    const headers = { 'content-type': type }
    expect((await service.send('POST', '/v1/pets', { body, headers })).status).toBe(201)
  })

  it.each([{ chunked: false }, { chunked: true }])(
    'takes 1 MiB and answers 413 to one byte more, %j',
    async ({ chunked }) => {
      const pet = '{"name":"Bella","categoryId":1}'
      const exact = pet.padEnd(1024 * 1024)
      const send = (body: string): Promise<Reply> =>
        service.send('POST', '/v1/pets', { body, headers: json, chunked })
      expect((await send(exact)).status).toBe(201)
      expectError(await send(`${exact} `), { status: 413, code: 'body_too_large' })
      expectError(await send(exact.repeat(7)), { status: 413, code: 'body_too_large' })
      expect((await get('/v1/pets/2')).status).toBe(404)
    },
  )
})

describe('getPet', () => {
  it.each(['5', '0', '-1', '-0', '9223372036854775807', '-9223372036854775808'])(
    'answers 404 to %s, which is nobody',
    async (petId) => {
      expectError(await get(`/v1/pets/${petId}`), { status: 404, code: 'pet_not_found' })
    },
  )

  const noIds = words('abc 1.0 1e3 +1 01 0x1 1n %20 9223372036854775808')
  it.each([...noIds, '9'.repeat(9000)])(
    'answers 400 to %.30s, which is no int64',
    async (petId) => {
      const reply = await get(`/v1/pets/${petId}`)
      expectError(reply, { status: 400, code: 'invalid_parameter', naming: 'petId' })
    },
  )
})

const idsOf = (reply: Reply): number[] =>
  (JSON.parse(reply.text) as { id: number }[]).map(({ id }) => id)
const range = (first: number, last: number): number[] =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index)

/** Creates animals 1..count, whose statuses go round: available, pending, sold, none. */
async function fill(count: number): Promise<void> {
  const statuses = [',"status":"available"', ',"status":"pending"', ',"status":"sold"', '']
  for (let index = 0; index < count; index++) {
    await service.create(`{"name":"n","categoryId":1${statuses[index % 4]}}`)
  }
}

/** The address in the only Link header, which must have exactly the documented form. */
function nextOf(reply: Reply): string | undefined {
  const { link } = reply.headers
  if (link === undefined) return undefined
  const match = /^<(\/v1\/pets\?[^>]*)>; rel="next"$/.exec(String(link))
  expect(match, String(link)).not.toBeNull()
  return match?.[1]
}

async function walk(path: string): Promise<number[][]> {
  const pages: number[][] = []
  for (let next: string | undefined = path; next !== undefined;) {
    const reply = await get(next)
    expect(reply.status).toBe(200)
    pages.push(idsOf(reply))
    next = nextOf(reply)
  }
  return pages
}

describe('listPets', () => {
  it('leads through more than 100 animals, each exactly once, newest last', async () => {
    await fill(105)
    expect(await walk('/v1/pets?limit=100')).toEqual([range(1, 100), range(101, 105)])
    const pagesOfTwenty = await walk('/v1/pets')
    expect(pagesOfTwenty.map((page) => page.length)).toEqual([20, 20, 20, 20, 20, 5])
    expect(pagesOfTwenty.flat()).toEqual(range(1, 105))
  })

  it('keeps limit and status from page to page', async () => {
    await fill(40)
    const pages = await walk('/v1/pets?status=sold&limit=4')
    expect(pages).toEqual([
      [3, 7, 11, 15],
      [19, 23, 27, 31],
      [35, 39],
    ])
  })

  it('has no Link when the page is exactly full', async () => {
    await fill(8)
    expect(await walk('/v1/pets?limit=4')).toEqual([range(1, 4), range(5, 8)])
    expect(await walk('/v1/pets?limit=2&status=available')).toEqual([[1, 5]])
  })

  it('neither skips nor repeats when animals are added between two pages', async () => {
    await fill(3)
    const next = nextOf(await get('/v1/pets?limit=2'))
    await fill(2)
    expect(idsOf(await get(String(next)))).toEqual([3, 4])
  })

  it('filters by each status, and lists animals without one only unfiltered', async () => {
    await fill(8)
    for (const [at, status] of ['available', 'pending', 'sold'].entries())
      expect(idsOf(await get(`/v1/pets?status=${status}`))).toEqual([at + 1, at + 5])
    expect(idsOf(await get('/v1/pets'))).toEqual(range(1, 8))
  })

  it('takes the limits 1 and 100, and ignores parameters it does not know', async () => {
    await fill(3)
    expect(idsOf(await get('/v1/pets?limit=1&page=7&page=8'))).toEqual([1])
    expect(idsOf(await get('/v1/pets?limit=100&'))).toEqual([1, 2, 3])
    expect(idsOf(await get('/v1/pets?'))).toEqual([1, 2, 3])
  })

  it.each([
    ...words('limit=0 limit=101 limit=-1 limit= limit=1.0 limit=1e1 limit=%201 limit=+1 limit=01'),
    ...words(`limit=ten limit=0x10 limit=%D9%A1 limit=${'9'.repeat(400)} limit=1&limit=1`),
    ...words('status= status=gone status=SOLD status=available,sold status=sold&status=sold'),
    ...words('status=constructor cursor= cursor=1 cursor=MQ== cursor=M+Q cursor=!!! cursor=LTE'),
    ...words('cursor=MA cursor=eA cursor=OTIyMzM3MjAzNjg1NDc3NTgwOA cursor=MR cursor=MQ&cursor=MQ'),
  ])('answers 400 to ?%s, naming it', async (query) => {
    const [naming = ''] = query.split('=')
    const reply = await get(`/v1/pets?${query}`)
    expectError(reply, { status: 400, code: 'invalid_parameter', naming: `${naming} must` })
  })
})

describe('addresses and methods', () => {
  const nowhere =
    '/ /v1 /v1/ /v1/pets/ /v1/pets/1/ /v1/pets/1/2 /v1/petsx /v1/petsx/1 /pets /V1/pets'
  it.each(words(nowhere))('answers 404 to %s', async (path) => {
    for (const method of ['GET', 'POST']) {
      expectError(await service.send(method, path), { status: 404, code: 'not_found' })
    }
  })

  it.each([
    ['/v1/pets', 'PUT DELETE PATCH OPTIONS', 'GET, HEAD, POST'],
    ['/v1/pets/1', 'POST PUT DELETE PATCH OPTIONS', 'GET, HEAD'],
  ])('answers 405 with Allow on %s', async (path, methods, allow) => {
    for (const method of words(methods)) {
      const reply = await service.send(method, path)
      expectError(reply, { status: 405, code: 'method_not_allowed' })
      expect(reply.headers.allow).toBe(allow)
    }
  })

  it('answers HEAD as GET without the body', async () => {
    for (const name of ['A', 'B']) await service.create(`{"name":"${name}","categoryId":1}`)
    for (const path of words('/v1/pets?limit=1 /v1/pets/1 /v1/pets/9 /v1/pets?limit=0 /nowhere')) {
      const [head, full] = [await service.send('HEAD', path), await get(path)]
      const { date: _, ...headHeaders } = head.headers
      const { date: __, ...fullHeaders } = full.headers
      expect(head.text).toBe('')
      expect([head.status, headHeaders]).toEqual([full.status, fullHeaders])
    }
  })
})
