/** A gateway process in the simulation: a real lessee with its own clocks and timers, that can be stopped, and killed. */
import type { Limits } from '../../src/config/config.ts'
import type { Lessee } from '../../src/core/quota/lessee.ts'
import type { Admission, QuotaDecision } from '../../src/core/quota/decision.ts'
import type { Authority } from '../../src/state/quota.ts'
import { createHost } from './host.ts'
import { createWitness, type Ledger, type Witness } from './ledger.ts'
import type { Schedule } from './schedule.ts'
import type { Quota } from './shipped.ts'
import type { Chance, VirtualTime } from './virtual-time.ts'

/** Requests that pile up at a stopped process; more are turned away by its listener. */
const BACKLOG = 200

export interface Surroundings {
  readonly time: VirtualTime
  readonly chance: Chance
  readonly ledger: Ledger
}

export interface SimulatedProcess {
  readonly witness: Witness
  readonly lessee: Lessee
  readonly isDead: boolean
  readonly isPaused: boolean
  /** Requests without an answer. */
  readonly undecided: number
  /** Those of one client. */
  undecidedOf(client: string): number
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
  { time, chance, ledger }: Surroundings,
  {
    quota,
    schedule,
    link,
    startMs,
    clockErrorMs = 0,
  }: {
    quota: Quota
    schedule: Schedule
    /** What the process sees of the authority. */
    link(process: SimulatedProcess): Authority
    startMs: number
    clockErrorMs?: number
  },
): SimulatedProcess {
  const host = createHost({ time, chance })
  const { deliver, later, nowMs, timers } = host
  const pending = new Map<string, number>()
  let waitingRequests = 0
  const witness = createWitness(id)

  const decided = (
    client: string,
    limits: Limits,
    asked: { atMs: number; pausedForMs: number },
  ) => {
    return (decision: QuotaDecision): void => {
      const waitedMs = time.nowMs - asked.atMs - (host.pausedForMs - asked.pausedForMs)
      const { atMs } = asked
      ledger.decided(witness, { client, limits, atMs, waitedMs }, decision)
      if (decision.kind === 'admitted' && chance.perMille(schedule.refund)) refund(client, decision)
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
    const note = decided(client, limits, { atMs: time.nowMs, pausedForMs: host.pausedForMs })
    const decision = lessee.take(client, limits)
    if (!(decision instanceof Promise)) return note(decision)
    pending.set(client, (pending.get(client) ?? 0) + 1)
    void decision.then((late) => {
      pending.set(client, (pending.get(client) ?? 0) - 1)
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
      return host.isDead
    },
    get isPaused() {
      return host.isPaused
    },
    get undecided() {
      return [...pending.values()].reduce((sum, count) => sum + count, 0)
    },
    undecidedOf: (client) => pending.get(client) ?? 0,
    deliver,
    later,
    request: (client, limits) => {
      if (host.isDead || (host.isPaused && waitingRequests >= BACKLOG)) return
      ledger.offered(client, limits)
      if (!host.isPaused) return host.run(() => ask(client, limits))
      waitingRequests += 1
      deliver('io', () => ask(client, limits))
    },
    pause: host.pause,
    resume: () => {
      if (host.isPaused) waitingRequests = 0
      host.resume()
    },
    kill: host.kill,
  }
  const epochMs = (): number => startMs + clockErrorMs + time.nowMs
  let lessee!: Lessee
  deliver('io', () => {
    lessee = new quota.Lessee({
      authority: link(process),
      processId: id,
      clock: {
        nowMs: quota.createSteadyClock(nowMs, epochMs),
        epochMs,
      },
      timers,
      outage: schedule.mode,
      maxClients: schedule.maxClients,
      lease: schedule.lease,
    })
  })
  return process
}
