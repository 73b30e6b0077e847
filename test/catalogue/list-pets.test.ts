import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { runCatalogue } from './running-catalogue.ts'
import type { Reply, RunningCatalogue } from './running-catalogue.ts'
import { words } from '../support/words.ts'

let service: RunningCatalogue
beforeEach(async () => {
  service = await runCatalogue()
})
afterEach(() => service.remove())

const get = (path: string): Promise<Reply> => service.send('GET', path)
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
  it('is an empty array without a Link where there is nothing', async () => {
    const reply = await get('/v1/pets')
    expect([reply.status, reply.text, reply.headers.link]).toEqual([200, '[]', undefined])
  })

  it('leads through more than 100 animals, each exactly once, newest last', async () => {
    await fill(230)
    const hundreds = [range(1, 100), range(101, 200), range(201, 230)]
    expect(await walk('/v1/pets?limit=100')).toEqual(hundreds)
    const pagesOfTwenty = await walk('/v1/pets')
    expect(pagesOfTwenty.map((page) => page.length)).toEqual([...Array<number>(11).fill(20), 10])
    expect(pagesOfTwenty.flat()).toEqual(range(1, 230))
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
    expect(idsOf(await get('/v1/pets?status=available'))).toEqual([1, 5])
    expect(idsOf(await get('/v1/pets?status=pending'))).toEqual([2, 6])
    expect(idsOf(await get('/v1/pets?status=sold'))).toEqual([3, 7])
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
    expect(reply.status).toBe(400)
    expect(JSON.parse(reply.text)).toEqual({
      code: 'invalid_parameter',
      message: expect.stringContaining(`${naming} must`) as string,
      status: 400,
    })
  })

  it('names every wrong parameter at once', async () => {
    const { text } = await get('/v1/pets?limit=0&status=x&cursor=x')
    expect(text).toMatch(/limit .*status .*cursor /)
  })
})
