/** Whom another configuration would refuse at once, by what the store has counted. */
import { expect, it } from 'vitest'
import type { Config } from '../../../src/config/config.ts'
import { blastRadius } from '../../../src/config/changes/blast-radius.ts'
import type { Counters } from '../../../src/insight/usage/counters.ts'
import { overNow } from '../../../src/insight/usage/over-now.ts'
import { readBlocks } from '../../support/serving.ts'

type LimitsById = Readonly<Record<string, readonly [perMinute: number, perDay: number]>>

const configOf = (limits: LimitsById, blocks: Record<string, string> = {}): Config => {
  const clients = Object.entries(limits).map(
    ([id, [perMinute, perDay]]) =>
      `- { id: ${id}, plan: enterprise, limits: { perMinute: ${perMinute}, perDay: ${perDay} }, keys: [] }`,
  )
  const own = { clients: `clients:\n${clients.join('\n')}`, ...blocks }
  return readBlocks(['http://127.0.0.1:9'], own)
}

/** By the numbers of minute and day that are in the id. */
const look: Counters['look'] = async (clients) =>
  clients.map(({ id }) => {
    const [minute = 0, day = 0] = (id.match(/\d+/g) ?? []).map(Number)
    const of = (used: number) => ({ index: 0, taken: used, used })
    return { nowMs: 0, minute: of(minute), day: of(day) }
  })

const asked = async (
  current: Config,
  next: Config,
  more: Partial<Parameters<typeof overNow>[0]> = {},
) =>
  overNow({
    current,
    next,
    of: (await blastRadius(current, next)).limits.lowered.length,
    look,
    isAwaited: () => false,
    ...more,
  })

const many = (count: number, perMinute: number): LimitsById =>
  Object.fromEntries(
    Array.from({ length: count }, (_, at) => [`m${at % 10}-${at}`, [perMinute, 100_000]]),
  )

it('counts who has used as much as a lowered limit or more, in a window that is lowered', async () => {
  const limits: Record<string, Record<'was' | 'is', readonly [number, number]>> = {
    'above-m9-d9': { was: [10, 100], is: [5, 100] },
    'at-m5-d5': { was: [10, 100], is: [5, 100] },
    'below-m4-d4': { was: [10, 100], is: [5, 100] },
    'day-m0-d50': { was: [10, 100], is: [10, 50] },
    'day-m0-d49': { was: [10, 100], is: [10, 50] },
    // Of the minute it has used all; that was so before.
    'full-m10-d20': { was: [10, 100], is: [10, 50] },
    'raised-m10-d99': { was: [10, 100], is: [20, 200] },
    'same-m10-d100': { was: [10, 100], is: [10, 100] },
  }
  const by = (which: 'was' | 'is') =>
    configOf(Object.fromEntries(Object.entries(limits).map(([id, one]) => [id, one[which]])))
  const over = await asked(by('was'), by('is'))
  expect(over).toEqual({
    asOf: expect.any(String) as string,
    scope: 'store',
    of: 6,
    lookedAt: 6,
    count: 3,
    clients: ['above-m9-d9', 'at-m5-d5', 'day-m0-d50'],
  })
})

it('serves requests meanwhile, and names no more than a thousand', async () => {
  let turns = 0
  const turning = setInterval(() => turns++, 0)
  const [current, next] = [configOf(many(2_100, 100)), configOf(many(2_100, 5))]
  turns = 0
  let atOnce = 0
  const over = await asked(current, next, {
    withinMs: Infinity,
    look: (clients) => {
      atOnce = Math.max(atOnce, clients.length)
      // As a store in this process takes its time, on the swiftest machine too.
      for (const endMs = performance.now() + 1; performance.now() < endMs;);
      return look(clients)
    },
  })
  clearInterval(turning)
  expect(over).toMatchObject({ of: 2_100, lookedAt: 2_100, count: 1_050 })
  expect([over.clients.length, over.clients[0]]).toEqual([1_000, 'm5-5'])
  expect(over).not.toHaveProperty('missing')
  expect(atOnce).toBe(50)
  expect(turns).toBeGreaterThan(3)
})

it.each<[string, Partial<Parameters<typeof overNow>[0]>, string]>([
  [
    'the store is away',
    {
      look: async (clients) => {
        if (clients.some(({ id }) => id.endsWith('-100'))) throw new Error('away')
        return look(clients)
      },
    },
    'the store is away: 200 of 300 clients were not looked at',
  ],
  [
    'another reload is asked for',
    { isAwaited: () => true },
    'another reload waits: 300 of 300 clients were not looked at',
  ],
  ['it takes long', { withinMs: -1 }, 'it takes long: 300 of 300 clients were not looked at'],
])('says what it does not know where %s', async (_, more, missing) => {
  const over = await asked(configOf(many(300, 100)), configOf(many(300, 5)), more)
  expect(over.missing).toEqual([missing])
  expect(over.count).toBe(over.lookedAt / 2)
  expect(over.of).toBe(300)
})

it('says that clients who come with tokens are in no file, where their plan is lowered', async () => {
  const plans = (perMinute: number) => ({
    plans: `plans: { pro: { perMinute: ${perMinute}, perDay: 1000 }, enterprise: { custom: true } }`,
    clients: 'clients: []',
    jwt: 'jwt: { issuer: "https://id.example/", audience: us, algorithms: [ES256], jwksUri: "https://id.example/keys" }',
  })
  const [current, next] = [configOf({}, plans(100)), configOf({}, plans(50))]
  expect((await asked(current, next)).missing).toEqual([
    'clients that come with tokens are in no file: they were not looked at',
  ])
  expect(await asked(next, current)).not.toHaveProperty('missing')
})
