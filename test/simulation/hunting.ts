/** Mutants are hunted with the schedules and in the small worlds that show them, and the script of Redis with the calls of a simulation. */
import * as fc from 'fast-check'
import { isDeepStrictEqual } from 'node:util'
import { connectRedis } from '../../src/redis/redis.ts'
import type { RedisStore } from '../../src/redis/store.ts'
import { createMemoryAuthority } from '../../src/quota/authorities/memory.ts'
import type { Authority, TakeReply, TakeRequest } from '../../src/quota/protocol.ts'
import { controlledRedisAuthority, until } from '../support/controlled-authority.ts'
import type { SharedRedis } from '../support/redis-server.ts'
import { serversAt } from '../support/redis-servers.ts'
import { loaded, replaced, type Replacement } from './copies.ts'
import { explore } from './exploration.ts'
import { Violation } from './ledger.ts'
import type { Mutant } from './mutants.ts'
import { properties, type Outcome, type Property, type PropertyName } from './properties.ts'
import { scaled, smallWorlds } from './small-worlds.ts'
import { shipped, type Quota } from './shipped.ts'

const SEED = 20_260_101
const MOST_STATES = 20_000
/** So many schedules of each property as its mutants need, and some more; where they are rare, from a seed that has them early. */
export const drawnFrom: Record<PropertyName, { readonly numRuns: number; readonly seed?: number }> =
  {
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

export interface Caught {
  readonly invariant: string
  /** A property, or a small world. */
  readonly where: string
  /** So many schedules, or states. */
  readonly after: number
}

/** Plays the schedules until one breaks an invariant. */
export async function hunt(
  quota: Quota,
  names: readonly PropertyName[],
): Promise<Caught | undefined> {
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

export const found = (mutant: Mutant): Promise<Caught | undefined> => {
  const { breaks } = mutant
  if (typeof breaks === 'object') return exploredTo(mutant, breaks.world)
  return hunt(loaded([mutant]), [breaks])
}

/** A call as the authority of a simulation has carried it out. */
interface Recorded {
  readonly authority: number
  readonly atMs: number
  readonly request: TakeRequest
  readonly reply: TakeReply
}

/** Plays schedules and keeps every call; Redis knows no time more exact than a microsecond. */
export async function recorded(
  names: readonly PropertyName[],
  numRuns: number,
): Promise<Recorded[]> {
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
export async function answeredAlike(
  calls: readonly Recorded[],
  { url, prefix }: SharedRedis,
  mutant?: Replacement,
): Promise<number> {
  const store = connectRedis({ servers: serversAt(url), timeoutMs: 20_000 })
  try {
    await until(() => store.available)
    const mutated: RedisStore = {
      ...store,
      script: ({ text, ...definition }) =>
        store.script({
          ...definition,
          text: mutant && definition.name === 'tollgateTake' ? replaced(text, mutant) : text,
        }),
    }
    const time = { ms: 0 }
    const authorities = new Map<number, Authority>()
    const authorityOf = (at: number): Authority => {
      const known = authorities.get(at)
      if (known !== undefined) return known
      const fresh = controlledRedisAuthority(mutated, { time, prefix: `${prefix}-${at}` })
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
