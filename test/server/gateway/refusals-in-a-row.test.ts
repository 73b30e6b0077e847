/** Answers to a caller that goes on after its refusal: made once a second, and yet true at each moment and for each caller. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { startBacked } from '../../support/backed.ts'
import { minuteWithAtLeast, sha256 } from '../../support/gateway.ts'

const key = (id: string) => `{ id: ${id}, sha256: ${sha256(`tg_row_${id}`)} }`
const { gateway } = await startBacked({
  blocks: {
    plans: 'plans: { a: { perMinute: 2, perDay: 50 }, b: { perMinute: 3, perDay: 50 } }',
    clients: `clients:
  - { id: client-one, plan: a, keys: [${key('one')}, ${key('sister')}] }
  - { id: client-two, plan: b, keys: [${key('two')}] }
  - { id: client-hot, plan: a, keys: [${key('hot')}] }`,
    bans: 'bans: { strikes: 30, within: 1m, grace: 0s, duration: 20s, growth: 1 }',
  },
})

type Told = Exclude<Awaited<ReturnType<typeof ask>>, undefined>

async function ask(id: string) {
  const fromMs = Date.now()
  const { status, header, body, left } = await gateway.ask('/v1/pets', { key: `tg_row_${id}` })
  if (status === 200) return undefined
  expect([status, left]).toEqual([429, 0])
  expect(header('content-length')).toBe(String(Buffer.byteLength(body)))
  const { code, message } = JSON.parse(body) as { code: string; message: string }
  const minuteWait = /"minute";r=0;t=(\d+)/.exec(header('ratelimit') ?? '')?.[1]
  return {
    fromMs,
    toMs: Date.now(),
    code,
    wait: Number(header('retry-after')),
    limit: header('x-ratelimit-limit'),
    minuteWait: Number(minuteWait),
    message,
  }
}

/** Each answer agrees with itself, with the clock and with the end that all of them speak of, which is known to so many seconds. */
function expectTrue(answers: readonly Told[], endMs: number, withinSeconds = 0): void {
  for (const { fromMs, toMs, code, wait, minuteWait, message } of answers) {
    // A ban's wait is no window's.
    if (code !== 'api_key_banned') expect(minuteWait).toBe(wait)
    expect(message).toContain(`Retry in ${wait} s.`)
    // Rounded up, and told for a second.
    expect(wait).toBeGreaterThanOrEqual((endMs - toMs) / 1000 - withinSeconds)
    expect(wait).toBeLessThanOrEqual((endMs - fromMs) / 1000 + 2)
  }
}

describe('a caller that goes on after its refusal', () => {
  it('is told the wait as it falls, and another one its own', async () => {
    await minuteWithAtLeast(15_000)
    const endMs = (Math.floor(Date.now() / 60_000) + 1) * 60_000
    const limits = { one: '2', two: '3', sister: '2' }
    const answers = { one: [] as Told[], two: [] as Told[], sister: [] as Told[] }
    for (let round = 0; round < 12; round++) {
      for (const name of ['one', 'two', 'sister'] as const) {
        const told = await ask(name)
        if (told !== undefined) answers[name].push(told)
      }
      await sleep(200)
    }
    for (const name of ['one', 'two', 'sister'] as const) {
      expectTrue(answers[name], endMs)
      expect(new Set(answers[name].map(({ wait }) => wait)).size).toBeGreaterThan(1)
      for (const { code, limit, message } of answers[name]) {
        expect([code, limit]).toEqual(['rate_limit_exceeded', limits[name]])
        expect(message).toContain(`Limit: ${limits[name]} a minute.`)
      }
    }
  })

  it('is told of its ban in the same way', async () => {
    let first: Told | undefined
    while (first?.code !== 'api_key_banned') first = await ask('hot')
    const endMs = first.toMs + first.wait * 1000
    const answers: Told[] = []
    for (let round = 0; round < 8; round++) {
      await sleep(200)
      const told = await ask('hot')
      if (told?.code === 'api_key_banned') answers.push(told)
    }
    expect(answers).toHaveLength(8)
    // The first wait was rounded up by up to a second, and its answer was under way for a while.
    expectTrue(answers, endMs, 1 + (first.toMs - first.fromMs) / 1000)
    expect(new Set(answers.map(({ wait }) => wait)).size).toBeGreaterThan(1)
    expect(new Set(answers.map(({ limit }) => limit))).toEqual(new Set(['2']))
  })
})
