import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { serversAt } from '../support/redis-servers.ts'
import { connectRedis } from '../../src/redis/redis.ts'
import type { RedisStore } from '../../src/redis/store.ts'
import type { Statement, TakeReply, TakeRequest } from '../../src/quota/protocol.ts'
import { ClientState, transition } from '../../src/quota/authorities/transition.ts'
import { quotaKey } from '../../src/quota/authorities/redis.ts'
import { controlledRedisAuthority, START_MS, until } from '../support/controlled-authority.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'

/** One process as the sequence plays it: what it believes, and the calls it has sent. */
interface Player {
  id: string
  sequence: number
  since: number
  heard?: number | undefined
  minute: Statement
  day: Statement
  sent: TakeRequest[]
}

const none: Statement = { index: -1, used: 0, held: 0 }
const small = fc.integer({ min: 0, max: 12 })

/** Steps of time that stay, cross into the next minute or day, and go back. */
const passed = fc.oneof(
  { weight: 6, arbitrary: fc.integer({ min: 0, max: 4_000_000 }).map((us) => us / 1000) },
  { weight: 3, arbitrary: fc.integer({ min: 0, max: 150_000 }) },
  { weight: 1, arbitrary: fc.integer({ min: -180_000, max: 0 }) },
  { weight: 1, arbitrary: fc.constantFrom(86_400_000, 5 * 3_600_000, -86_400_000) },
)
const limits = fc.constantFrom(
  { perMinute: 1, perDay: 1 },
  { perMinute: 3, perDay: 7 },
  { perMinute: 20, perDay: 25 },
  { perMinute: 60, perDay: 1000 },
  { perMinute: 30_000, perDay: 9_000_000_000_000 },
)
const step = fc.record({
  player: fc.integer({ min: 0, max: 2 }),
  passedMs: passed,
  limits,
  need: small,
  ahead: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 500 })),
  /** Spent of what is in hand, and beyond it. */
  spends: small,
  overspends: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: small }),
  returns: fc.boolean(),
  isCopied: fc.oneof(
    { weight: 5, arbitrary: fc.constant(false) },
    { weight: 1, arbitrary: fc.constant(true) },
  ),
  event: fc.oneof(
    { weight: 8, arbitrary: fc.constant('call' as const) },
    {
      weight: 4,
      arbitrary: fc.constantFrom(
        'reply is lost',
        'crash',
        'repeat',
        'late repeat',
        'restart',
        'forget',
        'nonsense',
        'data loss',
        'old copy',
      ),
    },
  ),
})

type Move = typeof step extends fc.Arbitrary<infer Value> ? Value : never

describe('take.lua and transition.ts', () => {
  let server: RedisServer
  let store: RedisStore
  let run = 0
  beforeAll(async () => {
    server = await startRedisServer()
    store = connectRedis({ servers: serversAt(server.url), timeoutMs: 5000 })
    await until(() => store.available)
  })
  afterAll(async () => {
    await store.close()
    await server.stop()
  })

  it('answer every sequence of calls alike, from several processes, through crashes, repeats and rollovers', async () => {
    const seen = new Set<string>()
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async (steps) => {
        const time = { ms: START_MS }
        let state = new ClientState()
        let copy: { readonly state: ClientState; readonly key: string } | undefined
        let redis = controlledRedisAuthority(store, { time, prefix: `run${run++}` })
        const players = ['a', 'b', 'c'].map(newPlayer)
        for (const move of steps) {
          time.ms = Math.round((time.ms + move.passedMs) * 1000) / 1000
          const player = players[move.player]
          if (player === undefined) throw new Error('no such player')
          if (move.event === 'crash') Object.assign(player, newPlayer(`${player.id}'`))
          if (move.event === 'restart') Object.assign(player, { minute: none, day: none })
          if (move.event === 'forget')
            Object.assign(player, {
              ...newPlayer(player.id),
              sequence: player.sequence,
              since: player.sequence,
            })
          if (move.event === 'data loss') {
            state = new ClientState()
            redis = controlledRedisAuthority(store, { time, prefix: `run${run++}` })
          }
          const key = quotaKey(`run${run - 1}`, 'acme')
          if (move.event === 'old copy') {
            state = structuredClone(copy?.state) ?? new ClientState()
            server.cli('DEL', key)
            if (copy !== undefined) server.cli('COPY', copy.key, key)
          } else if (move.isCopied) {
            copy = { state: structuredClone(state), key: `${key}-copy` }
            server.cli('DEL', copy.key)
            server.cli('COPY', key, copy.key)
          }
          const request = requestOf(player, move)
          const fromMemory = transition(state, request, time.ms, true)
          const fromRedis = await redis.take(request)
          expect(fromRedis).toEqual(fromMemory)
          seen.add(fromMemory.status)
          if (move.event !== 'reply is lost') believe(player, fromMemory)
        }
      }),
      { numRuns: 200 },
    )
    expect([...seen].sort()).toEqual(['granted', 'lost', 'short', 'stale'])
  }, 120_000)
})

function newPlayer(id: string): Player {
  return { id, sequence: 0, since: 0, minute: none, day: none, sent: [] }
}

function requestOf(player: Player, move: Move): TakeRequest {
  const repeated = move.event === 'repeat' ? player.sent.at(-1) : player.sent.at(-2)
  if ((move.event === 'repeat' || move.event === 'late repeat') && repeated) return repeated
  const request: TakeRequest = {
    client: 'acme',
    process: player.id,
    sequence: ++player.sequence,
    limits: move.limits,
    minute: stated(player.minute, move),
    day: stated(player.day, move),
    heard: player.heard,
    need: move.need,
    want: move.need + move.ahead,
    since: player.since,
  }
  player.sent.push(request)
  return request
}

function stated({ index, used, held, taken }: Statement, move: Move): Statement {
  // Nobody should say this, but both must make the same of it.
  if (move.event === 'nonsense')
    return { index: index + 1, used: held + 5, held: used, taken: move.need }
  const spent = Math.min(held, used + move.spends) + move.overspends
  const kept = move.returns ? spent : Math.max(held, spent)
  return { index, used: spent, held: kept, taken, returned: Math.max(0, held - kept) }
}

function believe(player: Player, reply: TakeReply): void {
  if (reply.status !== 'stale') player.heard = player.sequence
  for (const kind of ['minute', 'day'] as const) {
    const { index, held, taken } = reply[kind]
    const used = player[kind].index === index ? Math.min(player[kind].used, held) : 0
    player[kind] = { index, used, held, taken }
  }
}
