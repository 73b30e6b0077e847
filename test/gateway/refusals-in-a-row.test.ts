/** Answers to a caller that goes on after its refusal: made once a second, and yet true at each moment and for each caller. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  minuteWithAtLeast,
  sha256,
  startTestGateway,
  type TestGateway,
} from '../support/gateway.ts'
import { answer, startRawBackend, type RawBackend } from '../support/raw-backend.ts'

const keys = {
  one: 'tg_row_one',
  two: 'tg_row_two',
  sister: 'tg_row_sister',
  hot: 'tg_row_hot',
  spent: 'tg_row_spent',
}

interface Told {
  readonly atMs: number
  readonly code: string
  readonly wait: number
  readonly limit: string | null
  readonly minuteWait: number
  readonly message: string
}

let backend: RawBackend
let gateway: TestGateway

beforeAll(async () => {
  backend = await startRawBackend({ respond: () => answer(200, '[]') })
  const key = (id: keyof typeof keys) => `{ id: ${id}, sha256: ${sha256(keys[id])} }`
  gateway = await startTestGateway({
    upstreams: [backend.url],
    blocks: {
      plans:
        'plans: { a: { perMinute: 2, perDay: 50 }, b: { perMinute: 3, perDay: 50 }, c: { perMinute: 2, perDay: 2 } }',
      clients: `clients:
  - { id: client-one, plan: a, keys: [${key('one')}, ${key('sister')}] }
  - { id: client-two, plan: b, keys: [${key('two')}] }
  - { id: client-hot, plan: a, keys: [${key('hot')}] }
  - { id: client-spent, plan: c, keys: [${key('spent')}] }`,
      bans: 'bans: { strikes: 30, within: 1m, grace: 0s, duration: 20s, growth: 1 }',
    },
  })
})
afterAll(async () => {
  await gateway.stop()
  await backend.close()
})

async function ask(key: string): Promise<Told | undefined> {
  const response = await gateway.fetch('/v1/pets', { key })
  const text = await response.text()
  if (response.status === 200) return undefined
  expect(response.status).toBe(429)
  expect(response.headers.get('x-ratelimit-remaining')).toBe('0')
  expect(response.headers.get('content-length')).toBe(String(Buffer.byteLength(text)))
  const { code, message } = JSON.parse(text) as { code: string; message: string }
  const minuteWait = /"minute";r=0;t=(\d+)/.exec(response.headers.get('ratelimit') ?? '')?.[1]
  return {
    atMs: Date.now(),
    code,
    wait: Number(response.headers.get('retry-after')),
    limit: response.headers.get('x-ratelimit-limit'),
    minuteWait: Number(minuteWait),
    message,
  }
}

/** Each answer agrees with itself, with the clock and with the end that all of them speak of. */
function expectTrue(answers: readonly Told[], endMs: number): void {
  for (const { atMs, code, wait, minuteWait, message } of answers) {
    // A ban's wait is no window's.
    if (code !== 'api_key_banned') expect(minuteWait).toBe(wait)
    expect(message).toContain(`Retry in ${wait} s.`)
    // Rounded up, and told a moment before it was read.
    expect(wait).toBeGreaterThanOrEqual((endMs - atMs) / 1000)
    expect(wait).toBeLessThan((endMs - atMs) / 1000 + 4)
  }
  if (answers.length > 1) expect(new Set(answers.map(({ wait }) => wait)).size).toBeGreaterThan(2)
}

describe('a caller that goes on after its refusal', () => {
  it('is told the wait as it falls, and another one its own', async () => {
    await minuteWithAtLeast(20_000)
    const endMs = (Math.floor(Date.now() / 60_000) + 1) * 60_000
    const answers: Record<'one' | 'two' | 'sister', Told[]> = { one: [], two: [], sister: [] }
    for (let round = 0; round < 16; round++) {
      for (const name of ['one', 'two', 'sister'] as const) {
        const told = await ask(keys[name])
        if (told !== undefined) answers[name].push(told)
      }
      await sleep(200)
    }
    for (const name of ['one', 'two', 'sister'] as const) {
      expectTrue(answers[name], endMs)
      const limit = name === 'two' ? '3' : '2'
      for (const told of answers[name]) {
        expect(told).toMatchObject({ code: 'rate_limit_exceeded', limit })
        expect(told.message).toContain(`Limit: ${limit} a minute.`)
      }
    }
  }, 60_000)

  it('is told of its ban in the same way', async () => {
    let first: Told | undefined
    while (first?.code !== 'api_key_banned') first = await ask(keys.hot)
    const endMs = first.atMs + first.wait * 1000
    const answers: Told[] = []
    for (let round = 0; round < 14; round++) {
      const told = await ask(keys.hot)
      if (told?.code === 'api_key_banned') answers.push(told)
      await sleep(200)
    }
    expect(answers).toHaveLength(14)
    // The first wait was rounded up by up to a second.
    expectTrue(answers, endMs - 1_000)
    expect(new Set(answers.map(({ limit }) => limit))).toEqual(new Set(['2']))
  })

  it('is told to wait for its window where that opens after the end of its ban', async () => {
    let told: Told | undefined
    while (told?.code !== 'api_key_banned') told = await ask(keys.spent)
    const day = 86_400_000
    const endMs = (Math.floor(told.atMs / day) + 1) * day
    expectTrue([told], endMs)
    expect(told.limit).toBe('2')
  })
})
