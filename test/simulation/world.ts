/** One authority, the network and the processes of a schedule. */
import type { Limits } from '../../src/config/config.ts'
import type { EmbeddedAuthority } from '../../src/state/memory/authority.ts'
import type { Authority, NoticeListener, Notice, TakeReply } from '../../src/state/quota.ts'
import type { TakeRequest, Totals } from '../../src/state/quota.ts'
import { DAY_MS } from '../../src/config/time.ts'
import { START_MS } from '../support/controlled-authority.ts'
import { ownTimers } from './host.ts'
import { createLedger, Violation, type Books, type Rules } from './ledger.ts'
import { createSimulatedProcess, type SimulatedProcess } from './process.ts'
import { perfectNetwork, type Event, type Network, type Schedule } from './schedule.ts'
import type { Quota } from './shipped.ts'
import { createChance, createVirtualTime, passUntil, type Arrivals } from './virtual-time.ts'

export const TIMEOUT_MS = 100
/** By then a store that was late, or asked by a process that stood still, has answered everybody once. */
export const QUIET_MS = 500
/** A window that has ended is never opened again by a clock that goes back by so much. */
const SMALL_SKEW_MS = 60_000
/** Their calls are kept, so that a store can be set back. */
const losses: readonly Event['kind'][] = ['data loss', 'eviction', 'old copy']
type Partition = Event & { kind: 'partition' }
type Reset = Event & { kind: 'reset' }
type Late = Event & { kind: 'late' }
/** As operators do it: see usage/counters.ts. */
export const STATED_AFTER_MS = 250

interface Store {
  readonly memory: EmbeddedAuthority
  readonly calls: { readonly request: TakeRequest; readonly atMs: number }[]
}

export type World = ReturnType<typeof createWorld>

export function createWorld(
  quota: Quota,
  schedule: Schedule,
  rules: Pick<Rules, 'isExact' | 'missesNotices'> & { isPrompt?: boolean },
) {
  const chance = createChance(schedule.seed)
  const time = createVirtualTime(chance)
  const faults = new Map<string, number>()
  const happened = (fault: string): void => void faults.set(fault, (faults.get(fault) ?? 0) + 1)
  // The one under way, one's own, and one more where that was answered too late to spend what it brought, or after a reclaim.
  // Who waits shares a call with those of the same limits only.
  const limitChanges = schedule.steps.filter(({ event }) => event.kind === 'limits').length
  // An authority that has lost its data is asked again; and so is one that had nothing left, by as many as were handed back while
  // it answered, which others may take first.
  const isLossy = schedule.steps.some(({ event }) => losses.includes(event.kind))
  const callsAgain = (isLossy ? 4 : 0) + (schedule.refund > 0 ? 3 : 0)
  // And one that has only just met the client.
  const callsPerRequest = 4 + limitChanges + (rules.isExact ? 0 : 1) + callsAgain
  const forgets = schedule.maxClients < schedule.clients.length
  const ledger = createLedger(
    {
      isExact: rules.isExact,
      // Who is cut off from the store is cut off from its notices, and holds tokens that it believes spent.
      missesNotices:
        rules.missesNotices === true ||
        schedule.steps.some(({ event }) => event?.kind === 'partition' || event?.kind === 'late'),
      ...(rules.isPrompt === true ? { prompt: () => everyProcess } : {}),
      isAlone:
        schedule.processes === 1 && !forgets && !schedule.steps.some(({ event }) => isFatal(event)),
      forgets,
      waitsAtMostMs: callsPerRequest * TIMEOUT_MS + 30,
    },
    time,
  )
  const startMs = startOf(schedule)
  let clockMs = startMs
  /** A clock that goes back by more than a small skew opens its windows again. */
  let latestClockMs = startMs
  let network: Network = schedule.network
  /** Nothing goes wrong any more. */
  let isOver = false

  const clock = { epochMs: () => time.nowMs + clockMs }
  const losesData = schedule.authority === 'remote'
  /** Where data is lost each client has a store of its own, which can be set back to the calls that it had carried out by then. */
  const stores = new Map<string, Store>()
  const storeAfter = (client: string, calls: Store['calls']): Store => {
    let replayedMs: number | undefined
    const epochMs = (): number => replayedMs ?? clock.epochMs()
    const memory = quota.createEmbeddedAuthority({ clock: { epochMs }, losesData })
    for (const { request, atMs } of calls) {
      replayedMs = atMs
      void memory.take(request)
    }
    replayedMs = undefined
    const store = { memory, calls: [...calls] }
    stores.set(client, store)
    return store
  }
  const storeOf = (client: string): Store => {
    const name = isLossy ? client : 'all'
    return stores.get(name) ?? storeAfter(name, [])
  }
  let members = quota.createEmbeddedAuthority({ clock })
  /** At the beginning of each step. */
  const copies: {
    readonly books: Books
    readonly calls: readonly (readonly [string, Store['calls']])[]
  }[] = []
  const clients = schedule.clients.map((limits, at) => ({ id: `client-${at}`, limits }))
  const ids = clients.map(({ id }) => id)
  /** Limits that a process has and others have not yet. */
  const ownLimits = new Map<string, Limits>()
  const slots: SimulatedProcess[] = []
  const everyProcess: SimulatedProcess[] = []
  const noticeListeners = new Map<SimulatedProcess, NoticeListener[]>()
  /** Says whether notices come; until then they are missed. */
  const noticeFlows = new Map<SimulatedProcess, (isFlowing: boolean) => void>()
  const deaf = new Map<SimulatedProcess, number>()
  const returnListeners = new Map<SimulatedProcess, (() => void)[]>()
  const partitions = new Map<SimulatedProcess, Partition['how']>()
  const breakers = new Map<SimulatedProcess, InstanceType<Quota['StoreBreaker']>>()
  const held = new Map<
    SimulatedProcess,
    { readonly untilMs: number; readonly what: Late['what'] }
  >()
  /** Until then the store is not late again, so that nobody finds it silent for as long as one that is away. */
  let quietUntilMs = 0

  const carryOut = (request: TakeRequest): TakeReply => {
    const { memory, calls } = storeOf(request.client)
    if (isLossy) calls.push({ request, atMs: clock.epochMs() })
    // Memory answers at once.
    const reply = memory.take(request) as TakeReply
    ledger.carriedOut(request, reply)
    if (reply.notice !== undefined)
      for (const process of slots) announce(process, request, reply.notice, reply)
    return reply
  }
  const announce = (
    process: SimulatedProcess,
    { client, process: by }: Pick<TakeRequest, 'client' | 'process'>,
    notice: Notice,
    totals?: Totals,
  ): void => {
    if (time.nowMs < (deaf.get(process) ?? 0)) return
    if (chance.perMille(network.losesReclaim)) return happened('reclaim lost')
    const times = chance.perMille(network.repeatsReclaim) ? 2 : 1
    if (times === 2) happened('reclaim repeated')
    for (let at = 0; at < times; at++)
      time.at(time.nowMs + travel() + (at * network.lateMs) / 2, () =>
        process.deliver('io', () => {
          for (const listener of noticeListeners.get(process) ?? [])
            listener(client, notice, by, totals)
        }),
      )
  }
  const reset = ({ id, limits }: (typeof clients)[number], windows: Reset['windows']): void => {
    const { memory } = storeOf(id)
    void memory.attend(id, limits, (state, nowMs) => {
      if (quota.look(state, nowMs).day.index !== state.counts.day.index) return
      quota.reset(state, windows, nowMs)
      const witnesses = everyProcess.map(({ witness }) => witness)
      ledger.reset(id, windows, { state, witnesses })
    })
  }
  const travel = (): number => chance.between(network.latencyMs.min, network.latencyMs.max)

  /** Arrives then, or when it is held back no more. */
  const arrive = (
    process: SimulatedProcess,
    what: Late['what'],
    { atMs, task }: { atMs: number; task: () => void },
  ): void =>
    time.at(atMs, () => {
      const hold = held.get(process)
      const isHeld = hold?.what === what && time.nowMs < hold.untilMs
      if (isHeld) time.at(hold.untilMs, task)
      else task()
    })

  /** Sends a message and comes back with what `carriedOut` makes of it; never, where it is lost on the way. */
  const travelWith = <Reply>(
    process: SimulatedProcess,
    carriedOut: () => Reply | Promise<Reply>,
    arrived: () => void = () => undefined,
  ): Promise<Reply> =>
    new Promise((resolve, reject) => {
      const how = partitions.get(process)
      const back = (delayMs: number, task: () => void): void =>
        arrive(process, 'replies', {
          atMs: time.nowMs + travel() + delayMs,
          task: () => {
            arrived()
            process.deliver('io', task)
          },
        })
      if (how === 'refused' || how === 'away') return back(0, () => reject(new Error('refused')))
      if (how === 'silent') return
      if (chance.perMille(network.losesRequest)) return happened('request lost')
      const losesReply = how === 'replies lost' || chance.perMille(network.losesReply)
      if (losesReply && how === undefined) happened('reply lost')
      const isLate = chance.perMille(network.delaysRequest)
      if (isLate) happened('request delayed')
      const there = (delayMs: number, isUnheard: boolean): void =>
        arrive(process, 'requests', {
          atMs: time.nowMs + travel() + delayMs,
          task: () => {
            const reply = carriedOut()
            if (isUnheard) return
            const delaysReply = chance.perMille(network.delaysReply)
            if (delaysReply) happened('reply delayed')
            back(delaysReply ? chance.between(0, network.lateMs) : 0, () => resolve(reply))
          },
        })
      there(isLate ? chance.between(0, network.lateMs) : 0, losesReply)
      if (!chance.perMille(network.repeatsRequest)) return
      happened('request repeated')
      there(chance.between(0, network.lateMs), chance.perMille(500))
    })

  /** As redis.ts calls a server. */
  const caller = (process: SimulatedProcess) => {
    let isSilent = false
    let trials = 0
    const breaker = new quota.StoreBreaker(
      () =>
        quota.bounded(
          travelWith(process, () => undefined),
          TIMEOUT_MS,
          quota.timedOut,
        ),
      (available) => {
        isSilent = false
        if (available) returnListeners.get(process)?.forEach((listener) => listener())
      },
    )
    // A gateway that starts waits for the first probe.
    breaker.state = 'up'
    breakers.set(process, breaker)
    return <Reply>(send: () => Promise<Reply>, late?: () => void): Promise<Reply> => {
      if (!breaker.available) throw new Error('away')
      let isTrial = false
      const sent = (): Promise<Reply> => {
        isTrial = isSilent
        if (isTrial) ledger.tried((trials += 1))
        return send()
      }
      const over = (wasLate: boolean): void => {
        isSilent = wasLate && breaker.available
        if (isTrial) trials -= 1
      }
      return breaker.call(sent, TIMEOUT_MS).then(
        (reply) => {
          over(false)
          return reply
        },
        (fault: unknown) => {
          over(quota.isTimeout(fault))
          if (quota.isTimeout(fault)) late?.()
          throw fault
        },
      )
    }
  }

  const take = async (
    process: SimulatedProcess,
    request: TakeRequest,
    call: ReturnType<typeof caller>,
  ): Promise<TakeReply> => {
    const { witness } = process
    const { client } = request
    let hasArrived = false
    const send = () =>
      travelWith(
        process,
        () => ({ reply: carryOut(request), clockMs }),
        () => (hasArrived = true),
      )
    const late = (): void =>
      ledger.late(client, { waited: process.undecidedOf(client), hasArrived })
    ledger.sent(witness, request)
    try {
      const answer = await call(send, late)
      ledger.heard(witness, client, answer)
      return answer.reply
    } finally {
      ledger.ended(witness, client)
    }
  }

  const link = (process: SimulatedProcess): Authority => {
    if (schedule.authority === 'embedded')
      return {
        isEmbedded: true,
        take: (request) => {
          ledger.sent(process.witness, request)
          const reply = carryOut(request)
          ledger.ended(process.witness, request.client)
          ledger.heard(process.witness, request.client, { reply, clockMs })
          return reply
        },
      }
    const listeners = { notice: [] as NoticeListener[], return: [] as (() => void)[] }
    noticeListeners.set(process, listeners.notice)
    returnListeners.set(process, listeners.return)
    const call = caller(process)
    return {
      take: (request) => {
        if (breakers.get(process)?.available !== true) throw new Error('away')
        return take(process, request, call)
      },
      beat: async (sign) => call(() => travelWith(process, () => members.beat(sign))),
      onNotice: (listener, onFlow) => {
        listeners.notice.push(listener)
        if (onFlow !== undefined) noticeFlows.set(process, onFlow)
      },
      onReturn: (listener) => void listeners.return.push(listener),
    }
  }
  const boot = (slot: number): void => {
    const process = createSimulatedProcess(
      `p${slot}x${everyProcess.length}`,
      { time, chance, ledger },
      {
        quota,
        schedule,
        link,
        startMs,
        clockErrorMs: schedule.clockErrorMs * (slot % 2 === 0 ? 1 : -1),
      },
    )
    slots[slot] = process
    everyProcess.push(process)
  }
  const endTimers = ownTimers()
  for (let slot = 0; slot < schedule.processes; slot++) boot(slot)

  const living = () => slots.filter(({ isDead }) => !isDead).map(({ witness }) => witness)
  const slotOf = (index: number): number => index % slots.length
  const processAt = (index: number): SimulatedProcess => slots[slotOf(index)] as SimulatedProcess
  const limitsFor = (slot: number, client: (typeof clients)[number]): Limits =>
    ownLimits.get(`${slot} ${client.id}`) ?? client.limits

  const world = {
    time,
    chance,
    ledger,
    faults,
    clients,
    /** Unix time at the authority. */
    storeNowMs: () => clock.epochMs(),
    processCount: () => everyProcess.length,
    endTimers,

    /** A request of a client arrives at a process; indexes are taken modulo the number there is. */
    offer: (clientIndex: number, slotIndex: number): void => {
      const client = clients[clientIndex % clients.length]
      if (client === undefined) return
      const slot = slotOf(slotIndex)
      processAt(slot).request(client.id, limitsFor(slot, client))
    },

    happen: (event: Event): void => {
      if (isLossy)
        copies.push({
          books: ledger.copied(),
          calls: Array.from(stores, ([client, { calls }]) => [client, [...calls]] as const),
        })
      if (event.kind === 'none') return
      if (schedule.authority === 'embedded' && event.kind === 'partition') return
      const isQuiet = time.nowMs >= quietUntilMs && !slots.some(({ isPaused }) => isPaused)
      if (event.kind === 'late' && !isQuiet) return
      happened(event.kind)
      switch (event.kind) {
        case 'crash': {
          const slot = slotOf(event.process)
          processAt(slot).kill()
          time.at(time.nowMs + event.downMs, () => {
            if (processAt(slot).isDead) boot(slot)
          })
          return
        }
        case 'restart': {
          const slot = slotOf(event.process)
          const old = processAt(slot)
          if (old.isDead) return
          boot(slot)
          old.deliver('io', () => void old.lessee.drain().then(() => old.kill()))
          return
        }
        case 'pause': {
          const process = processAt(event.process)
          const { isSuspended, forMs, afterMs = 0 } = event
          const fromMs = time.nowMs + afterMs
          quietUntilMs = Math.max(quietUntilMs, fromMs + forMs + QUIET_MS)
          if (afterMs === 0) process.pause(isSuspended)
          else time.at(fromMs, () => void (isOver || process.pause(isSuspended)))
          time.at(fromMs + forMs, () => process.resume())
          return
        }
        case 'late': {
          const untilMs = time.nowMs + event.forMs
          quietUntilMs = untilMs + QUIET_MS
          for (const process of event.process === undefined ? slots : [processAt(event.process)])
            held.set(process, { untilMs, what: event.what })
          return
        }
        case 'authority clock':
          latestClockMs = Math.max(latestClockMs, clockMs + Math.max(0, event.byMs))
          clockMs = Math.max(clockMs + event.byMs, latestClockMs - SMALL_SKEW_MS)
          return
        case 'limits': {
          const client = clients[event.client % clients.length]
          if (client === undefined) return
          if (event.process === undefined) {
            client.limits = event.limits
            slots.forEach((_, slot) => ownLimits.delete(`${slot} ${client.id}`))
          } else ownLimits.set(`${slotOf(event.process)} ${client.id}`, event.limits)
          return
        }
        case 'partition': {
          const cut = event.process === undefined ? [...slots] : [processAt(event.process)]
          for (const process of cut) {
            partitions.set(process, event.how)
            if (event.how === 'away') process.deliver('io', () => breakers.get(process)?.lost())
          }
          time.at(time.nowMs + event.forMs, () => cut.forEach(rejoin))
          return
        }
        case 'reset': {
          const client = clients[event.client % clients.length]
          if (client === undefined) return
          const tell = (): void => {
            for (const process of slots)
              announce(process, { client: client.id, process: '' }, 'reset')
          }
          tell()
          return time.at(time.nowMs + STATED_AFTER_MS, () => {
            reset(client, event.windows)
            tell()
          })
        }
        case 'notices missed': {
          const process = processAt(event.process)
          const untilMs = Math.max(deaf.get(process) ?? 0, time.nowMs + event.forMs)
          deaf.set(process, untilMs)
          process.deliver('io', () => noticeFlows.get(process)?.(false))
          return time.at(untilMs, () =>
            process.deliver('io', () => {
              if (deaf.get(process) === untilMs) noticeFlows.get(process)?.(true)
            }),
          )
        }
        case 'data loss':
          stores.clear()
          members = quota.createEmbeddedAuthority({ clock })
          return ledger.dataLost(ids, living())
        case 'eviction': {
          const { id = '' } = clients[event.client % clients.length] ?? {}
          stores.delete(id)
          return ledger.dataLost([id], living())
        }
        case 'old copy': {
          const copy = copies.at(-1 - event.stepsBack) ?? copies[0]
          stores.clear()
          for (const [client, calls] of copy?.calls ?? []) storeAfter(client, calls)
          // Its connections are new ones.
          for (const process of slots) time.at(time.nowMs + travel(), () => returned(process))
          return ledger.dataLost(ids, living(), copy?.books)
        }
        default:
          throw new Error(`only a machine has this: ${event.kind}`)
      }
    },

    passUntil: (endMs: number, load?: Arrivals): Promise<void> =>
      passUntil(time, endMs, {
        load,
        violation: () => ledger.violation,
      }),

    /** Ends all faults, lets every process finish and drain, and looks at what is left. */
    finish: async (): Promise<void> => {
      isOver = true
      for (const process of everyProcess) rejoin(process)
      network = perfectNetwork
      for (const process of everyProcess) process.resume()
      await world.passUntil(time.nowMs + 4000)
      const late = everyProcess.filter((process) => !process.isDead && process.undecided > 0)
      if (late.length > 0) throw new Violation('decisions always come', 'requests wait for ever')
      const living = everyProcess.filter((process) => !process.isDead)
      let drained = 0
      for (const process of living)
        process.deliver('io', () => void process.lessee.drain().then(() => (drained += 1)))
      await world.passUntil(time.nowMs + 3000)
      if (drained < living.length)
        throw new Violation('drain() ends', `${drained} of ${living.length}`)
      if (ledger.violation !== undefined) throw ledger.violation
      for (const process of everyProcess)
        ledger.closed(process.witness, { isGone: !living.includes(process) })
      for (const { memory } of stores.values())
        if (memory.size > clients.length)
          throw new Violation('memory is bounded', `the authority keeps ${memory.size} clients`)
      for (const process of living) process.kill()
    },
  }
  const rejoin = (process: SimulatedProcess): void => {
    if (partitions.delete(process)) process.deliver('io', () => breakers.get(process)?.probe())
  }
  const returned = (process: SimulatedProcess): void =>
    process.deliver('io', () => returnListeners.get(process)?.forEach((listener) => listener()))
  return world
}

/** Unix time at its beginning, by the clock of the store. */
export function startOf({ startsBefore: { window, ms } }: Schedule): number {
  const dayStartMs = Math.floor(START_MS / DAY_MS) * DAY_MS
  return dayStartMs + (window === 'day' ? DAY_MS : 12 * 3_600_000) - ms
}

const isFatal = ({ kind }: Event): boolean => kind === 'crash' || kind === 'restart'
