/**
 * What a process is in the simulation: a monotonic clock, timers and a queue of what comes from outside. It can be stopped, as its
 * machine can, and killed. The timers that Node gives to all modules are those of the process whose turn it is.
 */
import type { Timers } from '../../src/state/timers.ts'
import type { Chance, VirtualTime } from './virtual-time.ts'

export type Host = ReturnType<typeof createHost>

/** Whose turn it is, also for the promises that settle after it. */
let current: Host | undefined

export function createHost({ time, chance }: { time: VirtualTime; chance: Chance }) {
  let state: 'running' | 'paused' | 'dead' = 'running'
  let pausedAtMs = 0
  let standsStill = false
  let pausedForMs = 0
  let backlog: { kind: 'timer' | 'io'; task: () => void }[] = []
  /** While what has waited in a stopped process has its turn: what comes after all of that. */
  let afterwards: (() => void)[] | undefined
  const bootMs = time.nowMs - chance.between(1, 100_000)
  /** Of its monotonic clock, while the machine was suspended. */
  let stoodStillMs = 0
  const nowMs = (): number => time.nowMs - bootMs - stoodStillMs

  const run = (task: () => void): void => {
    current = host
    task()
  }
  /** Runs the task in the process: now, or when it goes on, or never if it is dead. */
  const deliver = (kind: 'timer' | 'io', task: () => void): void => {
    if (state === 'paused') backlog.push({ kind, task })
    if (state !== 'running') return
    run(task)
    time.isTouched = true
  }
  /** Runs the task when so much time has passed on its monotonic clock: timers of a suspended machine stand still with it. */
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

  const host = {
    get isDead() {
      return state === 'dead'
    },
    get isPaused() {
      return state === 'paused'
    },
    /** In all. */
    get pausedForMs() {
      return pausedForMs
    },
    nowMs,
    timers,
    /** Runs what settles no promise. */
    run,
    deliver,
    later,
    /** In the next turn of its event loop: what has come by then is read first. */
    soon: (task: () => void): void => {
      if (afterwards !== undefined) afterwards.push(task)
      else time.at(time.nowMs, () => deliver('io', task))
    },
    /** isSuspended: the machine is; its monotonic clock stands still, too. */
    pause: (isSuspended = false): void => {
      if (state !== 'running') return
      state = 'paused'
      standsStill = isSuspended
      pausedAtMs = time.nowMs
    },
    resume: (): void => {
      if (state !== 'paused') return
      state = 'running'
      pausedForMs += time.nowMs - pausedAtMs
      if (standsStill) stoodStillMs += time.nowMs - pausedAtMs
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
      afterwards = []
      // Each in a turn of its own, as in an event loop.
      const next = (at: number): void => {
        const task = inOrder[at]
        if (task === undefined) {
          const last = afterwards ?? []
          afterwards = undefined
          return last.forEach(host.soon)
        }
        deliver('io', task)
        time.at(time.nowMs, () => next(at + 1))
      }
      time.at(time.nowMs, () => next(0))
    },
    kill: (): void => {
      state = 'dead'
      backlog = []
    },
  }
  return host
}

/** From now on timers and performance.now() are those of the process whose turn it is; the result ends that. */
export function ownTimers(): () => void {
  const { setTimeout, clearTimeout, setImmediate } = globalThis
  const cancelled = new WeakSet<object>()
  const own = {
    setTimeout: (task: () => void, delayMs = 0) => {
      const timer = { unref: () => timer }
      current?.later(delayMs, () => {
        if (!cancelled.has(timer)) task()
      })
      return timer
    },
    clearTimeout: (timer: object | undefined) => void (timer && cancelled.add(timer)),
    setImmediate: (task: () => void) => current?.soon(task),
  }
  Object.assign(globalThis, own)
  const clock = performance as { now?: () => number }
  clock.now = () => current?.nowMs() ?? 0
  return () => {
    current = undefined
    Object.assign(globalThis, { setTimeout, clearTimeout, setImmediate })
    delete clock.now
  }
}
