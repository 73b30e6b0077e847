/** A gateway process in the simulation: a real lessee with its own clocks and timers, that can be stopped, and killed. */
import type { Limits, OutageMode } from '../../src/config/config.ts'
import type { createSteadyClock } from '../../src/quota/steady-clock.ts'
import type { Lessee } from '../../src/quota/lessee/lessee.ts'
import type { Admission, Authority, QuotaDecision } from '../../src/quota/protocol.ts'
import type { Timers } from '../../src/quota/timers.ts'
import { createWitness, type Ledger, type Witness } from './ledger.ts'
import type { Chance, VirtualTime } from './virtual-time.ts'

/** Requests that pile up at a stopped process; more are turned away by its listener. */
const BACKLOG = 200

export interface Surroundings {
  readonly time: VirtualTime
  readonly chance: Chance
  readonly ledger: Ledger
  /** Something has run that may have settled promises. */
  touched(): void
}

export interface SimulatedProcess {
  readonly witness: Witness
  readonly lessee: Lessee
  readonly isDead: boolean
  readonly isPaused: boolean
  /** Requests without an answer. */
  readonly pending: number
  /** Runs the task in the process: now, or when it goes on, or never if it is dead. */
  deliver(kind: 'timer' | 'io', task: () => void): void
  /** Runs the task when so much time has passed on its monotonic clock. */
  later(delayMs: number, task: () => void): void
  request(client: string, limits: Limits): void
  /** isSuspended: the machine is; its monotonic clock stands still, too. */
  pause(isSuspended?: boolean): void
  resume(): void
  kill(): void
}

export function createSimulatedProcess(
  id: string,
  { time, chance, ledger, touched }: Surroundings,
  options: {
    Lessee: typeof Lessee
    createSteadyClock: typeof createSteadyClock
    /** What the process sees of the authority. */
    link(process: SimulatedProcess): Authority
    mode: OutageMode
    lease: 'auto' | 'off'
    maxClients: number
    clockErrorMs: number
    startMs: number
    refund: number
  },
): SimulatedProcess {
  let state: 'running' | 'paused' | 'dead' = 'running'
  let pausedAtMs = 0
  let standsStill = false
  let pausedForMs = 0
  let pending = 0
  let waitingRequests = 0
  let backlog: { kind: 'timer' | 'io'; task: () => void }[] = []
  const witness = createWitness(id)

  const deliver = (kind: 'timer' | 'io', task: () => void): void => {
    if (state === 'paused') backlog.push({ kind, task })
    if (state !== 'running') return
    task()
    touched()
  }
  const bootMs = time.nowMs - chance.between(1, 100_000)
  /** Of its monotonic clock, while the machine was suspended. */
  let stoodStillMs = 0
  const nowMs = (): number => time.nowMs - bootMs - stoodStillMs
  /** By the monotonic clock: timers of a suspended machine stand still with it. */
  const later = (delayMs: number, task: () => void): void => {
    const dueMs = nowMs() + delayMs
    const check = (): void => {
      const leftMs = dueMs - nowMs()
      if (leftMs < 0.001) task()
      else time.at(time.nowMs + leftMs, () => deliver('timer', check))
    }
    time.at(time.nowMs + delayMs, () => deliver('timer', check))
  }
  const timers: Timers = {
    every: (intervalMs, task) => {
      let isStopped = false
      const next = (): void =>
        later(intervalMs, () => {
          if (isStopped) return
          next()
          task()
        })
      next()
      return () => void (isStopped = true)
    },
    after: (delayMs) => new Promise((resolve) => later(delayMs, resolve)),
  }

  const decided = (
    client: string,
    limits: Limits,
    asked: { atMs: number; pausedForMs: number },
  ) => {
    return (decision: QuotaDecision): void => {
      const waitedMs = time.nowMs - asked.atMs - (pausedForMs - asked.pausedForMs)
      ledger.decided(witness, { client, limits, waitedMs }, decision)
      if (decision.kind === 'admitted' && chance.perMille(options.refund)) refund(client, decision)
    }
  }
  const refund = (client: string, decision: Admission): void =>
    time.at(time.nowMs + chance.between(0, 3000), () =>
      deliver('io', () => {
        ledger.givenBack(witness, client, decision)
        lessee.refund(client, decision)
      }),
    )
  const ask = (client: string, limits: Limits): void => {
    const note = decided(client, limits, { atMs: time.nowMs, pausedForMs })
    const decision = lessee.take(client, limits)
    if (!(decision instanceof Promise)) return note(decision)
    pending += 1
    void decision.then((late) => {
      pending -= 1
      try {
        note(late)
      } catch (violation) {
        time.at(time.nowMs, () => {
          throw violation
        })
      }
    })
  }

  const process: SimulatedProcess = {
    witness,
    get lessee() {
      return lessee
    },
    get isDead() {
      return state === 'dead'
    },
    get isPaused() {
      return state === 'paused'
    },
    get pending() {
      return pending
    },
    deliver,
    later,
    request: (client, limits) => {
      if (state === 'dead' || (state === 'paused' && waitingRequests >= BACKLOG)) return
      ledger.totals.offered += 1
      if (state === 'running') return ask(client, limits)
      waitingRequests += 1
      deliver('io', () => ask(client, limits))
    },
    pause: (isSuspended = false) => {
      if (state !== 'running') return
      state = 'paused'
      standsStill = isSuspended
      pausedAtMs = time.nowMs
    },
    resume: () => {
      if (state !== 'paused') return
      state = 'running'
      pausedForMs += time.nowMs - pausedAtMs
      if (standsStill) stoodStillMs += time.nowMs - pausedAtMs
      waitingRequests = 0
      // Timers keep their order and so does what comes from outside; which of both is first is chance.
      const due = { timer: [] as (() => void)[], io: [] as (() => void)[] }
      for (const { kind, task } of backlog) due[kind].push(task)
      backlog = []
      const timersFirst = chance.next()
      const inOrder: (typeof due.io)[number][] = []
      while (due.timer.length + due.io.length > 0) {
        const isTimersTurn = chance.next() < timersFirst
        const turn = due.io.length === 0 || (due.timer.length > 0 && isTimersTurn) ? 'timer' : 'io'
        inOrder.push(...due[turn].splice(0, 1))
      }
      // Each in a turn of its own, as in an event loop.
      const next = (at: number): void => {
        const task = inOrder[at]
        if (task === undefined) return
        deliver('io', task)
        time.at(time.nowMs, () => next(at + 1))
      }
      time.at(time.nowMs, () => next(0))
    },
    kill: () => {
      state = 'dead'
      backlog = []
    },
  }
  const epochMs = (): number => options.startMs + options.clockErrorMs + time.nowMs
  const lessee = new options.Lessee({
    authority: options.link(process),
    processId: id,
    clock: {
      nowMs: options.createSteadyClock({ monotonicMs: nowMs, epochMs }),
      epochMs,
    },
    timers,
    outage: options.mode,
    maxClients: options.maxClients,
    lease: options.lease,
  })
  return process
}
