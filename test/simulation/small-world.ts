/**
 * A world so small that everything that can happen in it can be tried: a few processes, one client, one authority. Nothing is
 * left to chance: each thing that may happen next is a choice, and the same choices make the same world again.
 */
import { hash } from 'node:crypto'
import type { Limits } from '../../src/config/config.ts'
import type { Lessee } from '../../src/core/quota/lessee.ts'
import type {
  Admission,
  Notice,
  NoticeListener,
  TakeReply,
  TakeRequest,
} from '../../src/state/quota.ts'
import { DAY_MS, MINUTE_MS } from '../../src/config/time.ts'
import type { ClientState } from '../../src/state/memory/transition.ts'
import { createLedger, createWitness, Violation, type Books, type Witness } from './ledger.ts'
import type { Quota } from './shipped.ts'

export type Fault =
  | 'request lost'
  | 'reply lost'
  | 'notice lost'
  | 'late'
  | 'repeat'
  | 'crash'
  | 'suspend'
  | 'loss'
  | 'old copy'

export interface SmallWorldOptions {
  readonly title: string
  readonly limits: Limits
  /** Each process takes these at some moment. */
  readonly newLimits?: Limits
  /** Requests in all. */
  readonly asks: number
  readonly refunds?: number
  /** The use is set back to 0 so often, without anybody being asked before. */
  readonly resets?: number
  /** So many may be admitted beyond a limit, where the store forgets. */
  readonly excess?: number
  /** What may go wrong, and how many times in all. */
  readonly faults?: { readonly kinds: readonly Fault[]; readonly most: number }
  /** The world begins so long before the end of a minute, or of a day. */
  readonly endsAfterMs?: number
  readonly ends?: 'minute' | 'day'
  /** Time passes in these steps, each as often as stated: to the next timer, or so many ms. */
  readonly passes: readonly { readonly ms: number | 'timer'; readonly most: number }[]
  /** What has happened before the choices begin: processes that ask, and ms that pass. */
  readonly opening?: readonly ({ readonly ask: number } | { readonly passMs: number })[]
}

export interface Choice {
  readonly label: string
  run(): void | Promise<void>
}

const CLIENT = 'c'
const PROCESSES = 2
const TIMEOUT_MS = 100
/** Who refused within this after tokens were handed back, or after something was lost or late, may not have heard of it. */
const NEWS_MS = 1000
const DAY_START_MS = Math.floor(Date.UTC(2100, 6, 1) / DAY_MS) * DAY_MS

interface Call {
  readonly from: Process
  readonly request: TakeRequest
  deadlineMs: number
  isOpen: boolean
  resolve(reply: TakeReply): void
  reject(fault: Error): void
}
type Message = { isHeld: boolean } & (
  | { readonly kind: 'request'; readonly call: Call }
  | { readonly kind: 'reply'; readonly call: Call; readonly reply: TakeReply }
  | { readonly kind: 'notice'; readonly to: Process; readonly notice: Notice }
)
interface Timer {
  readonly slot: Process
  atMs: number
  readonly everyMs: number | undefined
  run(): void
}
interface Process {
  readonly name: string
  readonly witness: Witness
  readonly lessee: Lessee
  readonly notices: NoticeListener[]
  limits: Limits
  isDead: boolean
  isAsleep: boolean
  /** How far its monotonic clock stands behind, having stood still. */
  stoodStillMs: number
  undecided: number
  admissions: Admission[]
  /** What it heard since it last had no call under way: a call that is repeated knows more than its request tells. */
  chain: string
}

export type SmallWorld = ReturnType<typeof createSmallWorld>

/** Lets every promise that can settle do so. */
async function settled(): Promise<void> {
  for (let turn = 0; turn < 12; turn++) await Promise.resolve()
}

export function createSmallWorld(quota: Quota, options: SmallWorldOptions) {
  const { newLimits, passes, excess = 0 } = options
  const faults = options.faults ?? { kinds: [], most: 0 }
  const time = { nowMs: 0 }
  const isLossy = faults.kinds.some((kind) => kind === 'loss' || kind === 'old copy')
  const hasCopies = faults.kinds.includes('old copy')
  const ledger = createLedger(
    { isExact: !isLossy, isAlone: false, forgets: false, waitsAtMostMs: 1000 },
    time,
  )
  const startMs =
    (options.ends === 'day' ? DAY_START_MS + DAY_MS : DAY_START_MS + DAY_MS / 2 + MINUTE_MS) -
    (options.endsAfterMs ?? 40_000)
  const epochMs = (): number => startMs + time.nowMs
  const members = quota.createMemoryAuthority({ clock: { epochMs } })
  let state = new quota.ClientState()
  let oldCopy = state
  let oldBooks: Books = new Map()
  let wire: Message[] = []
  let calls: Call[] = []
  let timers: Timer[] = []
  const slots: Process[] = []
  const everyone: Process[] = []
  let asksLeft = options.asks
  let refundsLeft = options.refunds ?? 0
  let resetsLeft = options.resets ?? 0
  let faultsLeft = faults.most
  const passesLeft = passes.map(({ most }) => most)
  let refundedMs = -Infinity
  let troubleMs = -Infinity
  let isTouched = false

  const boot = (slot: number): void => {
    const name = `p${everyone.length}`
    const notices: NoticeListener[] = []
    const every = (everyMs: number, run: () => void): (() => void) => {
      const timer: Timer = { slot: process, atMs: time.nowMs + everyMs, everyMs, run }
      timers.push(timer)
      return () => void (timers = timers.filter((other) => other !== timer))
    }
    const process: Process = {
      name,
      witness: createWitness(name),
      notices,
      limits: options.limits,
      isDead: false,
      isAsleep: false,
      stoodStillMs: 0,
      undecided: 0,
      admissions: [],
      chain: '',
    } as unknown as Process
    slots[slot] = process
    everyone.push(process)
    const lessee = new quota.Lessee({
      authority: {
        take: (request) => call(process, request),
        onNotice: (listener) => void notices.push(listener),
        beat: (sign) => {
          isTouched = true
          return members.beat(sign)
        },
        close: async () => undefined,
      },
      processId: name,
      clock: {
        nowMs: quota.createSteadyClock({
          monotonicMs: () => 1000 + time.nowMs - process.stoodStillMs,
          epochMs,
        }),
        epochMs,
      },
      timers: {
        every,
        after: (delayMs) =>
          new Promise((run) => {
            timers.push({ slot: process, atMs: time.nowMs + delayMs, everyMs: undefined, run })
          }),
      },
      outage: 'closed',
    })
    Object.assign(process, { lessee })
  }

  const call = (from: Process, request: TakeRequest): Promise<TakeReply> => {
    ledger.sent(from.witness, request)
    isTouched = true
    return new Promise((resolve, reject) => {
      const deadlineMs = time.nowMs + TIMEOUT_MS
      const made: Call = { from, request, deadlineMs, isOpen: true, resolve, reject }
      calls.push(made)
      wire.push({ kind: 'request', call: made, isHeld: false })
    })
  }
  const end = (ended: Call): boolean => {
    if (!ended.isOpen) return false
    ended.isOpen = false
    calls = calls.filter((other) => other !== ended)
    isTouched = true
    if (!ended.from.isDead) ledger.ended(ended.from.witness, CLIENT)
    return !ended.from.isDead
  }
  const carryOut = (made: Call): void => {
    const reply = quota.transition(state, made.request, epochMs(), false)
    ledger.carriedOut(made.request, reply)
    wire.push({ kind: 'reply', call: made, reply, isHeld: false })
    const { notice } = reply
    if (notice === undefined) return
    for (const to of slots) wire.push({ kind: 'notice', to, notice, isHeld: false })
  }
  const deliver = (message: Message): void => {
    wire = wire.filter((other) => other !== message)
    if (message.kind === 'request') return carryOut(message.call)
    if (message.kind === 'notice') {
      isTouched = true
      if (!message.to.isDead)
        for (const listener of message.to.notices) listener(CLIENT, message.notice)
      return
    }
    if (!end(message.call)) return
    const { from } = message.call
    if (from.undecided > 0) from.chain += `${message.reply.status}${message.reply.notice ?? ''} `
    ledger.heard(from.witness, CLIENT, { reply: message.reply, clockMs: startMs })
    message.call.resolve(message.reply)
  }

  const decided = (
    process: Process,
    limits: Limits,
    decision: Awaited<ReturnType<Lessee['take']>>,
    askedMs: number,
  ): void => {
    process.chain = ''
    const waitedMs = time.nowMs - process.stoodStillMs - askedMs
    const asked = { client: CLIENT, limits, atMs: askedMs, waitedMs }
    ledger.decided(process.witness, asked, decision)
    for (const [window, { count }] of ledger.excess)
      if (count > excess)
        throw new Violation(
          'no more is admitted beyond a limit than what is allowed',
          `${count} in ${window} (at ${time.nowMs} ms)`,
        )
    if (decision.kind === 'admitted') process.admissions.push(decision)
    if (decision.kind !== 'refused' || decision.view === undefined) return
    if (time.nowMs >= Math.max(refundedMs, troubleMs) + NEWS_MS)
      ledger.refused(CLIENT, decision, everyone)
  }
  let failure: unknown
  const ask = (process: Process): void => {
    const { limits } = process
    ledger.offered(CLIENT, limits)
    const askedMs = time.nowMs - process.stoodStillMs
    const decision = process.lessee.take(CLIENT, limits)
    if (!(decision instanceof Promise)) return decided(process, limits, decision, askedMs)
    process.undecided += 1
    isTouched = true
    void decision.then((late) => {
      process.undecided -= 1
      if (process.isDead) return
      try {
        decided(process, limits, late, askedMs)
      } catch (error) {
        failure ??= error
      }
    })
  }
  const settle = async (): Promise<void> => {
    if (isTouched) await settled()
    isTouched = false
    const broken = failure ?? ledger.violation
    if (broken !== undefined) throw broken
  }
  /** What is not held back arrives at once, in order. */
  const deliverAll = async (): Promise<void> => {
    for (;;) {
      const next = wire.find((message) => !message.isHeld && !receiver(message)?.isAsleep)
      if (next === undefined) return
      deliver(next)
      await settle()
    }
  }
  const receiver = (message: Message): Process | undefined =>
    message.kind === 'notice'
      ? message.to
      : message.kind === 'reply'
        ? message.call.from
        : undefined
  const nextTimer = (): Timer | undefined => {
    let first: Timer | undefined
    for (const timer of timers) if (first === undefined || timer.atMs < first.atMs) first = timer
    return first
  }
  const passTo = async (endMs: number): Promise<void> => {
    for (;;) {
      await deliverAll()
      const timer = nextTimer()
      const overdue = calls.find(
        ({ deadlineMs }) => deadlineMs <= Math.min(endMs, timer?.atMs ?? Infinity),
      )
      if (overdue !== undefined) {
        time.nowMs = Math.max(time.nowMs, overdue.deadlineMs)
        if (end(overdue)) overdue.reject(new Error('no answer'))
        await settle()
        continue
      }
      if (timer === undefined || timer.atMs > endMs) break
      time.nowMs = Math.max(time.nowMs, timer.atMs)
      if (timer.everyMs === undefined || timer.slot.isDead)
        timers = timers.filter((other) => other !== timer)
      else timer.atMs += timer.everyMs
      if (timer.slot.isDead) continue
      timer.run()
      if (timer.everyMs === undefined) isTouched = true
      await settle()
    }
    time.nowMs = Math.max(time.nowMs, endMs)
  }
  const oneShotMs = (): number => {
    let first = Infinity
    for (const { atMs, everyMs, slot } of timers)
      if (everyMs === undefined && !slot.isDead) first = Math.min(first, atMs)
    for (const { deadlineMs } of calls) first = Math.min(first, deadlineMs)
    return first
  }

  const copy = (): void => {
    oldCopy = copied(state)
    oldBooks = ledger.copied()
  }
  /** A choice, if it may happen in this world. */
  const fault = (kind: Fault, to: string, run: Choice['run']): Choice[] => {
    const happen = (): void | Promise<void> => {
      faultsLeft -= 1
      troubleMs = time.nowMs
      return run()
    }
    return faults.kinds.includes(kind) ? [{ label: `${kind} ${to}`, run: happen }] : []
  }
  const messageFaults = (message: Message, at: string): Choice[] => {
    const lost = (): void => void (wire = wire.filter((other) => other !== message))
    const held = (): void => void (message.isHeld = true)
    const repeated = (): void => {
      deliver(message)
      if (message.kind === 'request')
        wire.push({ kind: 'request', call: message.call, isHeld: true })
    }
    return [
      ...fault(`${message.kind} lost`, at, lost),
      ...(message.isHeld ? [] : fault('late', at, held)),
      ...(message.kind === 'request' ? fault('repeat', at, repeated) : []),
    ]
  }
  const processFaults = (process: Process, slot: number): Choice[] => {
    const crash = (): void => {
      process.isDead = true
      process.admissions = []
      wire = wire.filter((message) => message.kind !== 'notice' || message.to !== process)
      timers = timers.filter((timer) => timer.slot !== process)
      calls = calls.filter(({ from }) => from !== process)
      // It died of nothing else: only what it held is gone.
      troubleMs = -Infinity
      boot(slot)
    }
    // Its clock and its timers stand still, and what comes waits, while the world goes on.
    const suspend = async (): Promise<void> => {
      process.isAsleep = true
      process.stoodStillMs += MINUTE_MS
      for (const timer of timers) if (timer.slot === process) timer.atMs += MINUTE_MS
      for (const made of calls) if (made.from === process) made.deadlineMs += MINUTE_MS
      await passTo(time.nowMs + MINUTE_MS)
      process.isAsleep = false
      troubleMs = time.nowMs
    }
    return [...fault('crash', process.name, crash), ...fault('suspend', process.name, suspend)]
  }
  const label = (message: Message): string =>
    message.kind === 'notice'
      ? `${message.notice} notice to ${message.to.name}`
      : `${message.kind} ${message.call.from.name}.${message.call.request.sequence}`

  const world = {
    /** All that may happen now. */
    choices: (): Choice[] => {
      const list: Choice[] = []
      const may = (label: string, run: Choice['run']): void => void list.push({ label, run })
      const canFail = faultsLeft > 0
      const noticed = new Set<Process>()
      for (const message of wire) {
        // Notices to one process come over one connection, in order.
        if (message.kind === 'notice' && noticed.has(message.to)) continue
        if (message.kind === 'notice') noticed.add(message.to)
        const at = label(message)
        may(`deliver ${at}`, () => deliver(message))
        if (canFail) list.push(...messageFaults(message, at))
      }
      slots.forEach((process, slot) => {
        // Processes that have done nothing yet are alike.
        const isAlike = slot > 0 && slots[slot - 1]?.witness.newest.size === 0
        if (asksLeft > 0 && !(isAlike && process.witness.newest.size === 0))
          may(`ask ${process.name}`, () => {
            asksLeft -= 1
            ask(process)
          })
        if (newLimits !== undefined && process.limits !== newLimits)
          may(`new limits at ${process.name}`, () => {
            process.limits = newLimits
            troubleMs = time.nowMs
          })
        const [admission] = process.admissions
        if (refundsLeft > 0 && admission !== undefined)
          may(`refund ${process.name}`, () => {
            refundsLeft -= 1
            process.admissions.shift()
            refundedMs = time.nowMs
            ledger.givenBack(process.witness, CLIENT, admission)
            process.lessee.refund(CLIENT, admission)
            isTouched = true
          })
        if (canFail) list.push(...processFaults(process, slot))
      })
      if (resetsLeft > 0 && state.isKnown)
        may('reset', () => {
          resetsLeft -= 1
          troubleMs = time.nowMs
          const reset = ['minute', 'day'] as const
          quota.reset(state, reset, epochMs())
          const witnesses = everyone.map(({ witness }) => witness)
          ledger.reset(CLIENT, reset, { state, witnesses })
          for (const to of slots) wire.push({ kind: 'notice', to, notice: 'reset', isHeld: false })
        })
      if (canFail && state.isKnown)
        list.push(
          ...fault('loss', '', () => {
            state = new quota.ClientState()
            ledger.dataLost([CLIENT])
          }),
        )
      if (canFail && hasCopies) may('copy', copy)
      if (canFail)
        list.push(
          ...fault('old copy', '', () => {
            state = copied(oldCopy)
            ledger.dataLost([CLIENT], oldBooks)
          }),
        )
      if (wire.some(({ isHeld }) => !isHeld)) return list
      passes.forEach(({ ms }, at) => {
        const oneShot = oneShotMs()
        if ((passesLeft[at] ?? 0) === 0 || (ms === 'timer' && oneShot === Infinity)) return
        may(`pass ${ms}`, () => {
          if (ms !== 'timer') passesLeft[at] = (passesLeft[at] ?? 0) - 1
          return passTo(ms === 'timer' ? oneShot : time.nowMs + ms)
        })
      })
      return list
    },

    make: async ({ run }: Choice): Promise<void> => {
      await run()
      await settle()
    },

    open: async (): Promise<void> => {
      for (const step of options.opening ?? []) {
        if ('ask' in step) ask(slots[step.ask] as Process)
        else await passTo(time.nowMs + step.passMs)
        await settle()
        await deliverAll()
      }
      if (hasCopies) copy()
    },

    /** A name of the state of everything; what the classes keep private is part of it. */
    key: (): string => {
      const parts: (string | number)[] = [
        time.nowMs,
        asksLeft,
        refundsLeft,
        resetsLeft,
        faultsLeft,
        refundedMs,
        troubleMs,
        ...passesLeft,
      ]
      for (const process of slots) {
        const { name, stoodStillMs, undecided, chain, lessee, admissions } = process
        parts.push(name, stoodStillMs, undecided, chain, admissions.length)
        write(lessee, parts, new Map())
      }
      write(state, parts, new Map())
      if (hasCopies) write(oldCopy, parts, new Map())
      for (const message of wire) {
        parts.push(label(message), +message.isHeld)
        if (message.kind === 'reply') write(message.reply, parts, new Map())
        if (message.kind !== 'notice') write(message.call.request, parts, new Map())
      }
      for (const { from, request, deadlineMs } of calls)
        parts.push(from.name, request.sequence, deadlineMs)
      for (const { slot, atMs, everyMs } of timers) parts.push(slot.name, atMs, everyMs ?? 'once')
      const account = ledger.accounts.get(CLIENT)
      if (account !== undefined) {
        const before = slots.map(({ admissions }) =>
          admissions.map((one) => account.resetsBefore.get(one)),
        )
        write([account.admitted, account.resets, before], parts, new Map())
      }
      for (const { witness, limits } of everyone) {
        write(witness.admitted, parts, new Map())
        if (newLimits === undefined) continue
        // What is counted after a change depends on what was asked and admitted before.
        parts.push(limits.perMinute, limits.perDay)
        write([account?.limits, witness.known.get(CLIENT)?.asked], parts, new Map())
      }
      if (newLimits !== undefined) write(account?.admissions, parts, new Map())
      return hash('sha1', parts.join(' '), 'base64')
    },

    /** Everything arrives, time passes and all processes end; then the books must balance. */
    finish: async (): Promise<void> => {
      for (const message of wire) message.isHeld = false
      troubleMs = time.nowMs
      await passTo(time.nowMs + 300)
      const waiting = slots.filter(({ undecided }) => undecided > 0)
      if (waiting.length > 0) throw new Violation('decisions always come', 'requests wait for ever')
      let drained = 0
      for (const { lessee } of slots) void lessee.drain().then(() => (drained += 1))
      isTouched = true
      await settle()
      await passTo(time.nowMs + 2100)
      if (drained < slots.length)
        throw new Violation('drain() ends', `${drained} of ${slots.length}`)
      for (const process of everyone) ledger.closed(process.witness, { isGone: process.isDead })
    },
  }
  for (let slot = 0; slot < PROCESSES; slot++) boot(slot)
  return world
}

function copied(state: ClientState): ClientState {
  const copy = structuredClone(Object.fromEntries(Object.entries(state)))
  return Object.setPrototypeOf(copy, Object.getPrototypeOf(state) as object) as ClientState
}

/** They change nothing here: no limit is so large that a sixteenth of it is news, and nobody asks what is left without a request. */
const INERT = new Set(['minuteAnnounced', 'minuteNews', 'private_answeredMs'])

/** Adds all that is in the value; functions are no state. */
function write(value: unknown, parts: (string | number)[], seen: Map<object, number>): void {
  if (typeof value === 'number' || typeof value === 'string') parts.push(value)
  else if (typeof value === 'boolean') parts.push(value ? 'T' : 'F')
  else if (value === undefined || value === null) parts.push('-')
  else if (typeof value === 'object') {
    const known = seen.get(value)
    if (known !== undefined) return void parts.push('@', known)
    seen.set(value, seen.size)
    if (value instanceof Promise) parts.push('P')
    else if (Array.isArray(value)) for (const member of value) write(member, parts, seen)
    else if (value instanceof Map)
      for (const [key, member] of value) {
        write(key, parts, seen)
        write(member, parts, seen)
      }
    else if (value instanceof Set) for (const member of value) write(member, parts, seen)
    else
      for (const [name, member] of Object.entries(value))
        if (!INERT.has(name)) write(member, parts, seen)
    parts.push(';')
  }
}
