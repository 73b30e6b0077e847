/**
 * The simulation finds what it is there to find: each mutant is the quota with one rule broken, and must be caught by an
 * invariant. The schedules are the same in every run, and the quota as it is passes all of them.
 *
 * A mutant is a replacement in a source text that must occur there exactly once; it is made in a copy in a temporary folder.
 */
import * as fc from 'fast-check'
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RedisStore } from '../../src/redis/store.ts'
import { serversAt } from '../support/redis-servers.ts'
import { connectRedis } from '../../src/redis/redis.ts'
import { createMemoryAuthority } from '../../src/quota/authorities/memory.ts'
import type { Authority, TakeReply, TakeRequest } from '../../src/quota/protocol.ts'
import { controlledRedisAuthority, until } from '../support/controlled-authority.ts'
import '../support/low-priority.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { loaded, replaced, type Replacement } from './copies.ts'
import { explore } from './exploration.ts'
import { Violation } from './ledger.ts'
import { mutants, scriptMutants, type Mutant } from './mutants.ts'
import { properties, type Outcome, type Property, type PropertyName } from './properties.ts'
import { scaled, smallWorlds } from './small-worlds.ts'
import { shipped, type Quota } from './shipped.ts'

const SEED = 20_260_101
const MOST_STATES = 20_000
/** So many schedules of each property as its mutants need, and some more; where they are rare, from a seed that has them early. */
const drawnFrom: Record<PropertyName, { readonly numRuns: number; readonly seed?: number }> = {
  faults: { numRuns: 28, seed: 11 },
  crashes: { numRuns: 10, seed: 89 },
  late: { numRuns: 20, seed: 3 },
  'late workers': { numRuns: 16, seed: 4 },
  resets: { numRuns: 24 },
  'changed limits': { numRuns: 60, seed: 8 },
  'one process': { numRuns: 10, seed: 11 },
  'load above the limit': { numRuns: 8 },
  storms: { numRuns: 26 },
  outages: { numRuns: 15 },
  'store lost': { numRuns: 22, seed: 2 },
  'data loss': { numRuns: 33 },
  remaining: { numRuns: 12, seed: 9 },
  workers: { numRuns: 38, seed: 7 },
  'worker resets': { numRuns: 15 },
}

interface Caught {
  readonly invariant: string
  /** A property, or a small world. */
  readonly where: string
  /** So many schedules, or states. */
  readonly after: number
}

/** Plays the schedules until one breaks an invariant. */
async function hunt(quota: Quota, names: readonly PropertyName[]): Promise<Caught | undefined> {
  let schedules = 0
  for (const name of names) {
    const { schedule, run } = properties[name] as Property<unknown>
    for (const drawn of fc.sample(schedule, { seed: SEED, ...drawnFrom[name] })) {
      schedules += 1
      const outcome: Outcome | Violation = await run(quota, drawn).catch((error: unknown) => {
        if (error instanceof Violation) return error
        throw error
      })
      if (outcome instanceof Violation)
        return { invariant: outcome.invariant, where: name, after: schedules }
    }
  }
  return undefined
}

/** Explores a small world until an invariant is broken. */
async function exploredTo(mutant: Mutant, title: string): Promise<Caught | undefined> {
  const world = smallWorlds.find((one) => one.title === title)
  if (world === undefined) throw new Error(`no small world is called "${title}"`)
  const quota = loaded([...scaled, mutant], { isOpen: true })
  const { violation, states } = await explore(quota, world, { mostStates: MOST_STATES })
  return violation && { invariant: violation.invariant, where: title, after: states }
}

const found = (mutant: Mutant): Promise<Caught | undefined> => {
  const { breaks } = mutant
  if (typeof breaks === 'object') return exploredTo(mutant, breaks.world)
  return hunt(loaded([mutant]), [breaks])
}

const table: string[] = []
const row = (...cells: readonly (string | number)[]): void =>
  void table.push(`| ${cells.join(' | ')} |`)

/** A call as the authority of a simulation has carried it out. */
interface Recorded {
  readonly authority: number
  readonly atMs: number
  readonly request: TakeRequest
  readonly reply: TakeReply
}

/** Plays schedules and keeps every call; Redis knows no time more exact than a microsecond. */
async function recorded(names: readonly PropertyName[], numRuns: number): Promise<Recorded[]> {
  const calls: Recorded[] = []
  let authorities = 0
  const recording: Quota = {
    ...shipped,
    createMemoryAuthority: (options) => {
      const epochMs = (): number => Math.round(options.clock.epochMs() * 1000) / 1000
      const memory = createMemoryAuthority({ ...options, clock: { epochMs } })
      const authority = authorities++
      return {
        get size() {
          return memory.size
        },
        take: (request) => {
          const reply = memory.take(request)
          calls.push({ authority, atMs: epochMs(), request, reply })
          return reply
        },
        beat: memory.beat,
        attend: memory.attend,
        close: () => memory.close(),
      }
    },
  }
  for (const name of names) {
    const { schedule, run } = properties[name] as Property<unknown>
    for (const drawn of fc.sample(schedule, { numRuns, seed: SEED })) await run(recording, drawn)
  }
  return calls
}

const CALLS_AT_ONCE = 250

/** Makes the same calls to the script in Redis; tells how many were answered alike before the first that was not. */
async function answeredAlike(
  calls: readonly Recorded[],
  server: RedisServer,
  { name, mutant }: { name: string; mutant: Replacement | undefined },
): Promise<number> {
  const store = connectRedis({ servers: serversAt(server.url), timeoutMs: 20_000 })
  try {
    await until(() => store.available)
    const mutated: RedisStore = {
      ...store,
      script: ({ text, ...definition }) =>
        store.script({
          ...definition,
          text:
            mutant === undefined || definition.name !== 'tollgateTake'
              ? text
              : replaced(text, mutant),
        }),
    }
    const time = { ms: 0 }
    const authorities = new Map<number, Authority>()
    const authorityOf = (at: number): Authority => {
      const known = authorities.get(at)
      if (known !== undefined) return known
      const fresh = controlledRedisAuthority(mutated, { time, prefix: `${name}-${at}` })
      authorities.set(at, fresh)
      return fresh
    }
    for (let done = 0; done < calls.length; done += CALLS_AT_ONCE) {
      const batch = calls.slice(done, done + CALLS_AT_ONCE)
      const replies = await Promise.all(
        batch.map(async ({ authority, atMs, request }) => {
          time.ms = atMs
          return authorityOf(authority).take(request)
        }),
      )
      const wrong = batch.findIndex(({ reply }, at) => !isDeepStrictEqual(replies[at], reply))
      if (wrong !== -1) return done + wrong
    }
    return calls.length
  } finally {
    await store.close()
  }
}

row('mutant', 'caught by', 'in', 'after so many schedules or states')
afterAll(() => console.log(table.join('\n')))

describe('the simulation', () => {
  it('finds nothing in the quota as it is', async () => {
    const names = Object.keys(drawnFrom) as PropertyName[]
    expect(await hunt(loaded([]), names)).toBeUndefined()
  }, 300_000)

  it.each(mutants)(
    'finds: $name',
    async (mutant) => {
      const caught = await found(mutant)
      row(mutant.name, caught?.invariant ?? '-', caught?.where ?? '-', caught?.after ?? '-')
      expect(caught, 'no invariant was broken').toBeDefined()
    },
    300_000,
  )
})

describe('the calls of a simulation, made to Redis', () => {
  let server: RedisServer
  let calls: Recorded[] = []
  beforeAll(async () => {
    server = await startRedisServer()
    calls = await recorded(['faults', 'data loss'], 30)
  })
  afterAll(() => server.stop())

  it('are answered by the script as by its twin', async () => {
    expect(await answeredAlike(calls, server, { name: 'none', mutant: undefined })).toBe(
      calls.length,
    )
  }, 300_000)

  it.each(scriptMutants)(
    'show: $name',
    async (mutant) => {
      const alike = await answeredAlike(calls, server, { name: mutant.name, mutant })
      row(
        `take.lua: ${mutant.name}`,
        'answers as its twin does',
        'recorded calls',
        `${alike} calls`,
      )
      expect(alike).toBeLessThan(calls.length)
    },
    300_000,
  )
})
