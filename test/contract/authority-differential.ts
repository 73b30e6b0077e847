/** Both authorities, asked the same at the same times: a sample in `npm test`, many in `npm run proof`. */
import * as fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import type { RedisStore } from '../../src/state/redis/redis.ts'
import type { Statement, TakeReply, TakeRequest } from '../../src/state/quota.ts'
import { ClientState, transition } from '../../src/state/memory/transition.ts'
import { createRedisCounters, quotaKey } from '../../src/state/redis/authority.ts'
import { controlledRedisAuthority, controlledStore } from '../support/controlled-authority.ts'
import { connectedStore, START_MS } from '../support/controlled-authority.ts'
import { weighted, type Drawn } from '../support/drawn.ts'
import { look, reset } from '../../src/state/counters.ts'
import { sharedRedis } from '../support/redis-server.ts'

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
const passed = weighted(
  [6, fc.integer({ min: 0, max: 4_000_000 }).map((us) => us / 1000)],
  [3, fc.integer({ min: 0, max: 150_000 })],
  [1, fc.integer({ min: -180_000, max: 0 })],
  [1, fc.constantFrom(86_400_000, 5 * 3_600_000, -86_400_000)],
)
const limits = fc.constantFrom(
  { perMinute: 1, perDay: 1 },
  { perMinute: 3, perDay: 7 },
  { perMinute: 20, perDay: 25 },
  { perMinute: 60, perDay: 1000 },
  { perMinute: 30_000, perDay: 9_000_000_000_000 },
)
const mishaps = [
  ...(['reply is lost', 'crash', 'repeat', 'late repeat', 'restart', 'forget'] as const),
  ...(['nonsense', 'data loss', 'old copy', 'reset the minute', 'reset both'] as const),
]
const step = fc.record({
  player: fc.integer({ min: 0, max: 2 }),
  passedMs: passed,
  limits,
  need: small,
  ahead: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 500 })),
  /** Spent of what is in hand, and beyond it. */
  spends: small,
  overspends: weighted([5, fc.constant(0)], [1, small]),
  returns: fc.boolean(),
  isCopied: weighted([5, fc.constant(false)], [1, fc.constant(true)]),
  event: weighted([8, fc.constant('call' as const)], [4, fc.constantFrom(...mishaps)]),
})

type Move = Drawn<typeof step>

const move = (player: number, event: Move['event'], more: Partial<Move> = {}): Move => ({
  player,
  event,
  passedMs: 0,
  limits: { perMinute: 60, perDay: 1000 },
  need: 0,
  ahead: 0,
  spends: 0,
  overspends: 0,
  returns: false,
  isCopied: false,
  ...more,
})
/** They were once answered differently. */
const examples: [Move[]][] = [
  // In a minute whose reset it has not heard of a process states to have spent more than it held.
  [
    [
      move(1, 'call'),
      move(0, 'call', { passedMs: 2000, need: 5 }),
      move(1, 'reset the minute', { passedMs: 60_000, need: 1 }),
      move(0, 'nonsense', { need: 2 }),
      move(0, 'call', { need: 2 }),
      move(1, 'reset both'),
      move(0, 'call', { need: 5 }),
    ],
  ],
  // The clock goes back to the minute of an old copy, and a process states again what it holds of a later one.
  [
    [
      move(0, 'call'),
      move(1, 'reply is lost', { passedMs: 1000, ahead: 1, isCopied: true }),
      move(0, 'call', { isCopied: true }),
      move(1, 'call', { passedMs: 105_001 }),
      move(0, 'old copy', { passedMs: 3999 }),
      move(1, 'call', { passedMs: -60_001 }),
    ],
  ],
]

/** So many sequences; without a seed, others each time. */
export function compareAuthorities(runs: number, seed?: number): void {
  describe('take.lua and transition.ts', () => {
    let store: RedisStore
    const { url, prefix } = sharedRedis()
    let run = 0
    beforeAll(async () => (store = await connectedStore(url)))

    it('answer every sequence of calls alike, from several processes, through crashes, repeats and rollovers', async () => {
      const seen = new Set<string>()
      let resets = 0
      const does = store.script('return { redis.call(unpack(ARGV)) }')
      const redisDoes = (...command: string[]): Promise<unknown> => does([], command)
      await fc.assert(
        fc.asyncProperty(
          fc.array(step, { minLength: 1, maxLength: 40, size: 'max' }),
          async (steps) => {
            const time = { ms: START_MS }
            let state = new ClientState()
            let copy: { readonly state: ClientState; readonly key: string } | undefined
            let redis = controlledRedisAuthority(store, { time, prefix: `${prefix}-${run++}` })
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
                redis = controlledRedisAuthority(store, { time, prefix: `${prefix}-${run++}` })
              }
              const key = quotaKey(`${prefix}-${run - 1}`, 'acme')
              if (move.event === 'old copy') {
                state = structuredClone(copy?.state) ?? new ClientState()
                await redisDoes('DEL', key)
                if (copy !== undefined) await redisDoes('COPY', copy.key, key)
              } else if (move.isCopied) {
                copy = { state: structuredClone(state), key: `${key}-copy` }
                await redisDoes('DEL', copy.key)
                await redisDoes('COPY', key, copy.key)
              }
              if (move.event === 'reset the minute' || move.event === 'reset both') {
                const windows =
                  move.event === 'reset both' ? (['minute', 'day'] as const) : ['minute' as const]
                const before = look(state, time.ms)
                reset(state, windows, time.ms)
                const counters = createRedisCounters(
                  controlledStore(store, time),
                  `${prefix}-${run - 1}`,
                )
                const client = { id: 'acme', limits: move.limits }
                const after = look(state, time.ms)
                expect(await counters.attend(client, windows)).toEqual({ before, after })
                resets += after.day.taken < before.day.taken ? 1 : 0
              }
              const request = requestOf(player, move)
              const fromMemory = transition(state, request, time.ms, true)
              const fromRedis = await redis.take(request)
              expect(fromRedis).toEqual(fromMemory)
              seen.add(fromMemory.status)
              if (move.event !== 'reply is lost') believe(player, fromMemory)
            }
          },
        ),
        { numRuns: runs, examples, ...(seed !== undefined && { seed }) },
      )
      expect([...seen].sort()).toEqual(['granted', 'lost', 'short', 'stale'])
      expect(resets).toBeGreaterThan(runs / 20)
    }, 300_000)
  })
}

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

function stated({ index, used, held, taken, resetMs }: Statement, move: Move): Statement {
  // Nobody should say this, but both must make the same of it.
  if (move.event === 'nonsense')
    return { index: index + 1, used: held + 5, held: used, taken: move.need }
  const spent = Math.min(held, used + move.spends) + move.overspends
  const kept = move.returns ? spent : Math.max(held, spent)
  const known = resetMs === undefined ? {} : { resetMs }
  return {
    index,
    used: spent,
    held: kept,
    taken,
    returned: Math.max(0, held - kept),
    fresh: move.spends,
    ...known,
  }
}

function believe(player: Player, reply: TakeReply): void {
  if (reply.status !== 'stale') player.heard = player.sequence
  for (const kind of ['minute', 'day'] as const) {
    const { index, held, taken, resetMs } = reply[kind]
    const used = player[kind].index === index ? Math.min(player[kind].used, held) : 0
    player[kind] = { index, used, held, taken, resetMs }
  }
}
