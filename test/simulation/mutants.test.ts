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
import { ClientState, transition } from '../../src/quota/authorities/transition.ts'
import { createSteadyClock } from '../../src/quota/steady-clock.ts'
import { Lessee } from '../../src/quota/lessee/lessee.ts'
import type { Authority, TakeReply, TakeRequest } from '../../src/quota/protocol.ts'
import { controlledRedisAuthority, until } from '../support/controlled-authority.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { loaded, replaced, type Replacement } from './copies.ts'
import { Violation } from './ledger.ts'
import { properties, type Outcome, type Property, type PropertyName } from './properties.ts'
import type { Quota } from './world.ts'

interface Mutant extends Replacement {
  /** Played first; the others follow. */
  readonly breaks: PropertyName
}

const mutants: readonly Mutant[] = [
  {
    name: 'the authority carries out repeated and late calls',
    file: 'authorities/transition.ts',
    from: 'return repeated(state, record, request.sequence, nowMs)',
    to: 'void repeated',
    breaks: 'faults',
  },
  {
    name: 'the day is not counted',
    file: 'authorities/transition.ts',
    from: 'state.dayTaken += granted.day',
    to: '',
    breaks: 'crashes',
  },
  {
    name: 'two processes are granted the same tokens',
    file: 'authorities/transition.ts',
    from: 'state.minuteTaken += granted.minute',
    to: '',
    breaks: 'crashes',
  },
  {
    name: 'a refusal is charged',
    file: 'authorities/transition.ts',
    from: 'const spent = Math.min(granted.minute, request.need)',
    to: 'const spent = request.need',
    breaks: 'crashes',
  },
  {
    name: 'what was granted before a crash is handed out again',
    file: 'authorities/transition.ts',
    from: 'if (record?.minuteIndex !== state.minuteIndex) state.activeNow += 1',
    to: 'if (record?.minuteIndex !== state.minuteIndex) { state.activeNow += 1; state.minuteTaken = state.minuteUsed }',
    breaks: 'crashes',
  },
  {
    name: 'a minute opens again when the clock goes back',
    file: 'authorities/transition.ts',
    from: 'state.minuteIndex === ofClock + 1 ? state.minuteIndex : ofClock',
    to: 'ofClock',
    breaks: 'faults',
  },
  {
    name: 'a day opens again when the clock goes back',
    file: 'authorities/transition.ts',
    from: 'Math.floor((minuteIndex * MINUTE_MS) / DAY_MS)',
    to: 'Math.floor(nowMs / DAY_MS)',
    breaks: 'faults',
  },
  {
    name: 'lost data is not noticed',
    file: 'authorities/transition.ts',
    from: 'learn(state, isUnknown || isRestating, nowMs)',
    to: 'learn(state, false, nowMs)',
    breaks: 'data loss',
  },
  {
    name: 'tokens are spent after the end of their minute',
    file: 'lessee/lease-window.ts',
    from: 'this.spendUntilMs = at.sentMs + leftMs - SPEND_GUARD_MS',
    to: 'this.spendUntilMs = at.receivedMs + leftMs + 2 * SPEND_GUARD_MS',
    breaks: 'faults',
  },
  {
    name: 'a late answer is spent in the next minute',
    file: 'lessee/authority-calls.ts',
    from: 'sent.reply instanceof Promise && receivedMs >= mayEndAtMs(lease, sent, reply)',
    to: 'false',
    breaks: 'faults',
  },
  {
    name: 'what a call in advance brings is counted twice',
    file: 'lessee/lease-window.ts',
    from: 'this.held = held\n    this.taken = taken\n    this.spendUntilMs',
    to: 'this.held += held\n    this.taken = taken\n    this.spendUntilMs',
    breaks: 'crashes',
  },
  {
    name: 'a lowered limit does not act on tokens in hand',
    file: 'lessee/lease-window.ts',
    from: '&& this.remaining(limit) > 0',
    to: '',
    breaks: 'one process',
  },
  {
    name: 'a refund gives two tokens back',
    file: 'lessee/lease-window.ts',
    from: 'this.used -= 1',
    to: 'this.used -= 2',
    breaks: 'crashes',
  },
  {
    name: 'a refund goes to whatever minute or day it is',
    file: 'lessee/lease-window.ts',
    from: 'if (this.index === index && this.used > 0)',
    to: 'if (this.used > 0)',
    breaks: 'crashes',
  },
  {
    name: 'a reclaim gives back what was spent',
    file: 'lessee/lease-window.ts',
    from: 'this.held = Math.min(held, this.used)',
    to: 'this.used = this.held = 0',
    breaks: 'crashes',
  },
  {
    name: 'what goes back is spent while the call is under way',
    file: 'lessee/authority-calls.ts',
    from: 'if (returns) lease.returnTokens()',
    to: '',
    breaks: 'crashes',
  },
  {
    name: 'idle tokens go back while a call is under way',
    file: 'lessee/holdings.ts',
    from: 'if (client.isCalling || nowMs - lease.lastUsedMs < dueAfterMs) continue',
    to: 'if (nowMs - lease.lastUsedMs < dueAfterMs) continue',
    breaks: 'faults',
  },
  {
    name: 'the last tokens are granted to nobody',
    file: 'authorities/grant.ts',
    from: 'Math.min(Math.max(ask.need, share), left)',
    to: 'Math.min(Math.max(ask.need, share), left - 1)',
    breaks: 'load above the limit',
  },
  {
    name: 'tokens go back at the end only',
    file: 'lessee/holdings.ts',
    from: 'if (!this.#calls.call(client, { returns: true })) return false',
    to: 'if (!this.#isDraining) return true\n    if (!this.#calls.call(client, { returns: true })) return false',
    breaks: 'load above the limit',
  },
  {
    name: 'nothing is given back at the end',
    file: 'lessee/holdings.ts',
    from: 'if (this.uncertain.has(client) || isHolding(client.lease)) this.#settle(client)',
    to: '',
    breaks: 'crashes',
  },
  {
    name: 'a client met again takes back what it used before',
    file: 'lessee/authority-calls.ts',
    from: 'since: lease.since,',
    to: '',
    breaks: 'faults',
  },
  {
    name: 'a failed call is not settled',
    file: 'lessee/lessee.ts',
    from: 'this.#holdings.uncertain.add(client)\n        this.#outage',
    to: 'this.#outage',
    breaks: 'faults',
  },
  {
    name: 'without the store each process admits what it likes',
    file: 'lessee/outage.ts',
    from: 'return this.#denial(lease, limits, nowMs) ?? lease.spend(limits, nowMs, true)',
    to: 'return lease.spend(limits, nowMs, true)',
    breaks: 'outages',
  },
  {
    name: 'Retry-After is rounded down',
    file: 'lessee/lease-window.ts',
    from: 'Math.ceil((this.endsByMs - nowMs) / 1000)',
    to: 'Math.floor((this.endsByMs - nowMs) / 1000)',
    breaks: 'one process',
  },
  {
    name: 'a lease outlasts its minute while the machine is suspended',
    file: 'steady-clock.ts',
    from: 'if (gainedMs > 0) suspendedMs += gainedMs',
    to: '',
    breaks: 'faults',
  },
]

const shipped = { createSteadyClock, Lessee, createMemoryAuthority, transition, ClientState }
const SEED = 20_260_101
const runs: Record<PropertyName, number> = {
  faults: 300,
  crashes: 40,
  'one process': 30,
  'load above the limit': 30,
  storms: 30,
  outages: 30,
  'data loss': 60,
}

/** The same in the script that Redis runs. */
const scriptMutants: readonly Replacement[] = [
  {
    name: 'a late call is carried out',
    file: 'authorities/take.lua',
    from: 'if sequence <= lastSequence then',
    to: 'if sequence == lastSequence then',
  },
  {
    name: 'the day is not counted',
    file: 'authorities/take.lua',
    from: 'dayTaken, dayUsed = dayTaken + dayGrant, dayUsed + spent',
    to: 'dayUsed = dayUsed + spent',
  },
  {
    name: 'a minute opens again when the clock goes back',
    file: 'authorities/take.lua',
    from: 'if lastMinute == minute + 1 then minute = lastMinute end',
    to: '',
  },
  {
    name: 'the time of a reply is too early',
    file: 'authorities/take.lua',
    from: 'math.ceil(tonumber(time[2]) / 1000)',
    to: 'math.floor(tonumber(time[2]) / 1000)',
  },
]

interface Caught {
  readonly invariant: string
  readonly property: PropertyName
  readonly schedules: number
}

/** Plays the schedules until one breaks an invariant. */
async function hunt(quota: Quota, order: readonly PropertyName[]): Promise<Caught | undefined> {
  let schedules = 0
  for (const name of order) {
    const { schedule, run } = properties[name] as Property<unknown>
    for (const drawn of fc.sample(schedule, { numRuns: runs[name], seed: SEED })) {
      schedules += 1
      const outcome: Outcome | Violation = await run(quota, drawn).catch((error: unknown) => {
        if (error instanceof Violation) return error
        throw error
      })
      if (outcome instanceof Violation)
        return { invariant: outcome.invariant, property: name, schedules }
    }
  }
  return undefined
}

const names = Object.keys(runs) as PropertyName[]
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

row('mutant', 'caught by', 'in', 'after so many schedules')
afterAll(() => console.log(table.join('\n')))

describe('the simulation', () => {
  it('finds nothing in the quota as it is', async () => {
    expect(await hunt(loaded([]), names)).toBeUndefined()
  }, 120_000)

  it.each(mutants)(
    'finds: $name',
    async (mutant) => {
      const order = [mutant.breaks, ...names.filter((name) => name !== mutant.breaks)]
      const caught = await hunt(loaded([mutant]), order)
      row(mutant.name, caught?.invariant ?? '-', caught?.property ?? '-', caught?.schedules ?? '-')
      expect(caught, 'no invariant was broken').toBeDefined()
    },
    120_000,
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
  }, 120_000)

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
    120_000,
  )
})
