/** Which day a request is of, at the end of one, with a gateway in this process whose clock is set. */
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import type { DayUsage } from '../../src/api/usage.ts'
import { until } from '../support/controlled-authority.ts'
import { keys, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { startRawBackend, type RawBackend } from '../support/raw-backend.ts'

const DAY_MS = 86_400_000
/** Longer than any machine needs for three requests. */
const BEFORE_MS = 600_000
const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'

let backend: RawBackend
let gateway: TestGateway
let firstDay: number
let answer: () => void
/** Of the clock. */
let aheadMs = 0
beforeAll(async () => {
  const isOver = new Promise<void>((resolve) => (answer = resolve))
  backend = await startRawBackend({
    respond: async ({ target }) => {
      if (target !== '/v1/pets/slow') return OK
      await isOver
      return OK
    },
  })
  gateway = await startTestGateway({ upstreams: [backend.url] })
  const realNow = Date.now
  aheadMs = DAY_MS - (realNow() % DAY_MS) - BEFORE_MS
  vi.spyOn(Date, 'now').mockImplementation(() => realNow() + aheadMs)
  firstDay = Math.floor(Date.now() / DAY_MS)
})
afterAll(async () => {
  await gateway.stop()
  await backend.close()
  vi.restoreAllMocks()
})

async function dayOf(day: number): Promise<[string, number][]> {
  const name = new Date(day * DAY_MS).toISOString().slice(0, 10)
  const told = await fetch(`http://127.0.0.1:${gateway.adminPort}/api/usage?day=${name}`)
  const { clients } = (await told.json()) as DayUsage
  return clients.map(({ client, admitted }) => [client, admitted])
}

it('a request is of the day in which it was charged, however late it is answered', async () => {
  const slow = gateway.fetch('/v1/pets/slow', { key: keys.pro })
  const left = new AbortController()
  const body = new ReadableStream({ start: (writer) => writer.enqueue(new Uint8Array(10)) })
  const given = {
    method: 'POST',
    body,
    duplex: 'half',
    signal: left.signal,
    key: keys.pro,
  } as const
  const handedBack = gateway.fetch('/v1/pets', given).catch(() => undefined)
  expect((await gateway.fetch('/v1/pets', { key: keys.pro })).status).toBe(200)
  await until(async () => (await dayOf(firstDay))[0]?.[1] === 3)
  // Two of them are under way.
  aheadMs += BEFORE_MS
  left.abort()
  await handedBack
  answer()
  expect((await slow).status).toBe(200)
  for (let n = 0; n < 4; n++) await gateway.fetch('/v1/pets', { key: keys.pro })
  await until(async () => (await dayOf(firstDay + 1))[0]?.[1] === 4)
  await until(async () => (await dayOf(firstDay))[0]?.[1] === 2)
})
