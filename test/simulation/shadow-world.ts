/**
 * One schedule under live limits, with others tried beside them or without, so that runs can be held against each other request
 * by request: what a lessee sees of the network is drawn for it alone, and what is due at once keeps its order.
 */
import { expect } from 'vitest'
import type { Limits, OutageMode } from '../../src/config/config.ts'
import type { Authority, Notice, NoticeListener, QuotaDecision } from '../../src/state/quota.ts'
import { createCaller } from '../../src/core/rules/credentials.ts'
import { Shadow, type JudgeByShadow } from '../../src/core/record/shadow.ts'
import { shadowId } from '../../src/state/memory/client-counters.ts'
import { ShadowCounts } from '../../src/core/record/shadow-counts.ts'
import { START_MS } from '../support/controlled-authority.ts'
import { createHost, type Host } from './host.ts'
import { shipped } from './shipped.ts'
import { createChance, createVirtualTime, passUntil, type Chance } from './virtual-time.ts'
import { STATED_AFTER_MS, TIMEOUT_MS } from './world.ts'

/** embedded: one process that counts itself. workers: a channel that loses nothing. hosts: a network, and a store that may lose its data. */
export type Kind = 'embedded' | 'workers' | 'hosts'
const PLAN = 'plan'
const CLIENTS = 2
const LASTS_MS = 90_000
const ANYBODY = { plan: PLAN, keyId: 'k', concurrent: 1, keyDigest: '', expiresAtMs: 0 }

type Fault =
  | { readonly kind: 'crash' | 'restart' | 'data loss' }
  | { readonly kind: 'reset'; readonly client: number }
  | { readonly kind: 'pause'; readonly forMs: number }
  | { readonly kind: 'cut'; readonly how: 'away' | 'silent' | 'deaf'; readonly forMs: number }

interface Request {
  readonly request: number
  readonly client: number
  readonly refundAtMs: number | undefined
}
type Step = { readonly atMs: number; readonly slot: number } & (Request | { readonly fault: Fault })

interface ShadowSchedule {
  readonly seed: number
  readonly kind: Kind
  readonly processes: number
  readonly losesPerMille: number
  readonly steps: readonly Step[]
}

function shadowSchedule(seed: number, kind: Kind, perSecond: number): ShadowSchedule {
  const chance = createChance(seed)
  const processes = kind === 'embedded' ? 1 : Math.floor(chance.between(2, 5))
  const any = (below: number): number => Math.floor(chance.next() * below)
  const forMs = (): number => chance.between(50, 3_000)
  const faults: (() => Fault)[] = [
    () => ({ kind: 'reset', client: any(CLIENTS) }),
    () => ({ kind: 'pause', forMs: forMs() }),
    () => ({ kind: 'crash' }),
    () => ({ kind: 'restart' }),
    () => ({ kind: 'cut', how: chance.pick(['away', 'silent', 'deaf']), forMs: 5 * forMs() }),
    () => ({ kind: 'data loss' }),
  ]
  // The counters of one process are gone with it.
  const possible = faults.slice(0, { embedded: 2, workers: 5, hosts: 6 }[kind])
  const steps: Step[] = []
  for (let request = 0, atMs = 0; atMs < LASTS_MS; request++) {
    atMs += chance.between(0, 2_000 / perSecond)
    const refundAtMs = chance.perMille(100) ? atMs + chance.between(5, 3_000) : undefined
    steps.push({ atMs, slot: any(processes), request, client: any(CLIENTS), refundAtMs })
  }
  for (let count = any(8); count > 0; count--)
    steps.push({ atMs: any(LASTS_MS), slot: any(processes), fault: chance.pick(possible)() })
  steps.sort((one, other) => one.atMs - other.atMs)
  return { seed, kind, processes, losesPerMille: kind === 'hosts' ? any(20) : 0, steps }
}

interface Policy {
  readonly live: Limits
  readonly mode: OutageMode
  readonly tried?: Limits
  /** Tries alone what was tried beside others, on the same network: the requests that were handed back then. */
  readonly refunded?: ReadonlySet<number>
}

const wordOf = (decision: QuotaDecision): string =>
  decision.kind === 'refused' ? decision.window : decision.kind

/** One process: what it was given when it came. */
interface Process {
  readonly host: Host
  readonly listeners: NoticeListener[]
  readonly returns: (() => void)[]
  lessee: InstanceType<typeof shipped.Lessee>
  shadow: Shadow | undefined
  judge: JudgeByShadow | undefined
  cut: 'away' | 'silent' | 'deaf' | undefined
}

async function playShadow(schedule: ShadowSchedule, policy: Policy) {
  const { kind, seed, losesPerMille } = schedule
  let moments = 0
  const time = createVirtualTime({ next: () => moments++ })
  const clock = { epochMs: () => START_MS + time.nowMs }
  const losesData = kind === 'hosts'
  let memory = shipped.createMemoryAuthority({ clock, losesData })
  const members = shipped.createMemoryAuthority({ clock })
  const streams = new Map<string, Chance>()
  const stream = (name: string): Chance => {
    const known = streams.get(name)
    if (known !== undefined) return known
    const seedOf = Buffer.from(name).reduce((sum, byte) => (sum * 31 + byte) | 0, seed)
    const chance = createChance(seedOf)
    streams.set(name, chance)
    return chance
  }
  const slots: Process[] = []
  const decisions = { live: [] as string[], tried: [] as string[] }
  const refunded = new Set<number>()
  const counts = new ShadowCounts()
  let asking = 0

  const latencyMs = kind === 'hosts' ? 20 : 2
  const roleOf = (client: string) =>
    client.startsWith(shadowId('')) || policy.refunded !== undefined ? 'tried' : 'live'
  const announce = (client: string, notice: Notice, by = ''): void => {
    for (const [at, process] of slots.entries()) {
      const delayMs = stream(`${roleOf(client)} notice ${at}`).between(0, latencyMs)
      time.at(time.nowMs + delayMs, () =>
        process.host.deliver('io', () =>
          process.listeners.forEach((hear) => hear(client, notice, by)),
        ),
      )
    }
  }
  const link = (process: Process, slot: number): Authority => ({
    take: (request) => {
      if (kind === 'embedded') return memory.take(request)
      if (process.cut === 'away') throw new Error('away')
      const chance = stream(`${roleOf(request.client)} call ${slot}`)
      const [thereMs, backMs] = [chance.between(0.1, latencyMs), chance.between(0.1, latencyMs)]
      const [isLost, isDeaf] = [chance.perMille(losesPerMille), chance.perMille(losesPerMille)]
      return new Promise((resolve, reject) => {
        process.host.later(TIMEOUT_MS, () => reject(new Error('no answer')))
        if (isLost || process.cut === 'silent') return
        time.at(time.nowMs + thereMs, () => {
          const reply = memory.take(request)
          if (reply.notice !== undefined) announce(request.client, reply.notice, request.process)
          if (isDeaf || process.cut === 'deaf') return
          time.at(time.nowMs + backMs, () => process.host.deliver('io', () => resolve(reply)))
        })
      })
    },
    ...(kind !== 'embedded' && {
      beat: (beat) =>
        new Promise((resolve) => {
          if (process.cut !== undefined) return
          void members.beat(beat).then((beats) => process.host.deliver('io', () => resolve(beats)))
        }),
    }),
    onNotice: (listener) => void process.listeners.push(listener),
    onReturn: (listener) => void process.returns.push(listener),
    close: async () => undefined,
  })

  let boots = 0
  const boot = (slot: number): void => {
    boots += 1
    const still = { ...createChance(seed), next: () => 0.5 }
    const host = createHost({ time, chance: still })
    const process = { host, listeners: [], returns: [], cut: undefined } as unknown as Process
    const { nowMs, timers } = host
    const open = (role: keyof typeof decisions, mode: OutageMode, authority: Authority) => {
      class Noting extends shipped.Lessee {
        override take(id: string, limits: Limits): QuotaDecision | Promise<QuotaDecision> {
          const request = asking
          const decision = super.take(id, limits)
          if (decision instanceof Promise)
            void decision.then((late) => (decisions[role][request] = wordOf(late)))
          else decisions[role][request] = wordOf(decision)
          return decision
        }
      }
      const steady = shipped.createSteadyClock({ monotonicMs: nowMs, ...clock })
      return new Noting({
        authority,
        processId: `${role} ${boots}`,
        clock: { nowMs: steady, ...clock },
        timers,
        outage: mode,
      })
    }
    host.deliver('io', () => {
      const authority = link(process, slot)
      process.lessee = open('live', policy.mode, authority)
      process.shadow = new Shadow({
        authority,
        openLessee: (own) => open('tried', own.outage, own.authority),
        counts,
        refused: () => undefined,
      })
      const plan = { name: PLAN, limits: policy.live, concurrent: 1, shadow: policy.tried }
      process.judge = process.shadow.judgeFor(new Map([[PLAN, plan]]))
    })
    slots[slot] = process
  }

  const ask = (process: Process, step: Request): void => {
    const { request, refundAtMs } = step
    const clientId = `client-${step.client}`
    const { lessee, host } = process
    asking = request
    const decision = lessee.take(clientId, policy.live)
    const caller = { ...ANYBODY, clientId, limits: policy.live }
    const charge = process.judge?.(createCaller(caller, false), decision)
    let known: QuotaDecision | undefined
    const settled = (decided: QuotaDecision): void => void (known = decided)
    if (decision instanceof Promise) void decision.then(settled)
    else settled(decision)
    if (refundAtMs === undefined) return
    const handBack = (): void => {
      const isDue = policy.refunded?.has(request) ?? known?.kind === 'admitted'
      if (!isDue) return
      refunded.add(request)
      const back = (decided: QuotaDecision): void => {
        if (decided.kind === 'admitted') lessee.refund(clientId, decided)
      }
      // Tried alone, a request may be handed back before it is decided.
      if (known === undefined) void Promise.resolve(decision).then(back)
      else back(known)
      charge?.refund()
    }
    time.at(refundAtMs, () => host.deliver('io', handBack))
  }

  const happen = (fault: Fault, slot: number): void => {
    const process = slots[slot]
    if (process === undefined) return
    const { host } = process
    switch (fault.kind) {
      case 'crash':
        host.kill()
        return boot(slot)
      case 'restart':
        boot(slot)
        return host.deliver('io', () => {
          void process.lessee.drain()
          void process.shadow?.drain()
        })
      case 'pause':
        host.pause()
        return time.at(time.nowMs + fault.forMs, () => host.resume())
      case 'cut':
        for (const one of slots) {
          one.cut = fault.how
          time.at(time.nowMs + fault.forMs, () => {
            one.cut = undefined
            one.host.deliver('io', () => one.returns.forEach((hear) => hear()))
          })
        }
        return
      case 'data loss':
        memory = shipped.createMemoryAuthority({ clock, losesData })
        return
      case 'reset': {
        const client = `client-${fault.client}`
        const ids = policy.tried === undefined ? [client] : [client, shadowId(client)]
        ids.forEach((id) => announce(id, 'reset'))
        return time.at(time.nowMs + STATED_AFTER_MS, () => {
          for (const id of ids) {
            void memory.attend(id, policy.live, (state, nowMs) =>
              shipped.reset(state, ['minute', 'day'], nowMs),
            )
            announce(id, 'reset')
          }
        })
      }
    }
  }

  for (let slot = 0; slot < schedule.processes; slot++) boot(slot)
  for (const step of schedule.steps)
    time.at(step.atMs, () => {
      const process = slots[step.slot]
      if ('fault' in step) happen(step.fault, step.slot)
      else process?.host.deliver('io', () => ask(process, step))
    })
  await passUntil(time, LASTS_MS + 8_000)
  return { decisions, refunded, counts }
}

const tight: Limits = { perMinute: 40, perDay: 60 }
const wide: Limits = { perMinute: 100_000, perDay: 1_000_000 }
const tighter: Limits = { perMinute: 25, perDay: 40 }
const modes: readonly OutageMode[] = ['local', 'open', 'closed']
const PER_SECOND = 4

const countOf = (words: readonly (string | undefined)[], word: string): number =>
  words.filter((one) => one === word).length

/** Limits that are only tried would refuse just what they refuse where they are live, and what is live does not feel them. */
export async function shadowsAgree(kind: Kind, schedules: number): Promise<void> {
  const seen = { minute: 0, day: 0, admitted: 0, unavailable: 0 }
  for (let seed = 1; seed <= schedules; seed++) {
    const schedule = shadowSchedule(seed, kind, PER_SECOND)
    const live = seed % 2 === 0 ? wide : tighter
    const mode = modes[(seed >> 1) % 3] ?? 'local'
    const without = await playShadow(schedule, { live, mode })
    const beside = await playShadow(schedule, { live, mode, tried: tight })
    const { refunded } = without
    const alone = await playShadow(schedule, { live: tight, mode: 'closed', refunded })
    expect(beside.decisions.live, `live, seed ${seed}`).toEqual(without.decisions.live)
    expect(beside.decisions.tried, `tried, seed ${seed}`).toEqual(alone.decisions.live)
    const { requests, degraded, refusedMinute, refusedDay } = beside.counts.plan(PLAN, 0)
    const words = alone.decisions.live
    for (const word of ['minute', 'day', 'admitted', 'unavailable'] as const)
      seen[word] += countOf(words, word)
    expect([refusedMinute, refusedDay, degraded]).toEqual(
      ['minute', 'day', 'unavailable'].map((word) => countOf(words, word)),
    )
    expect(requests).toBeGreaterThan(200)
  }
  for (const word of ['minute', 'day', 'admitted'] as const)
    expect(seen[word]).toBeGreaterThan(5 * schedules)
  expect(seen.unavailable > 0).toBe(kind !== 'embedded')
}
