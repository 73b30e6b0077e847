/**
 * One machine: a supervisor with the embedded authority and its journal, and workers that ask it over IPC in batches. It dies with
 * its workers, at times before they do, and a new one goes on from what is on the disk.
 */
import type { AnswerBatch, IpcCalls } from '../../src/state/calls.ts'
import type { QuotaCalls } from '../../src/state/supervisor/home.ts'
import type { Authority, Beats, NoticeListener, TakeReply } from '../../src/state/quota.ts'
import type { TakeRequest } from '../../src/state/quota.ts'
import { DAY_MS, MINUTE_MS } from '../../src/config/time.ts'
import { createDisk } from './disk.ts'
import { createHost, ownTimers, type Host } from './host.ts'
import { createLedger, Violation } from './ledger.ts'
import { createSimulatedProcess, type SimulatedProcess } from './process.ts'
import type { Event, Schedule } from './schedule.ts'
import type { Quota } from './shipped.ts'
import { createChance, createVirtualTime, passUntil, type Arrivals } from './virtual-time.ts'
import { QUIET_MS, startOf, STATED_AFTER_MS, TIMEOUT_MS } from './world.ts'

/** By then all is written again that was not while the disk was ill. */
const WELL_AFTER_MS = 4000
/** Requests that a stopped worker has begun have ended by then, and what they hand back is back. */
const FINISH_MS = 3100
/** What a crash strands of a limit, at most. */
const AHEAD = 1 / 16
const windows = ['minute', 'day'] as const

interface Worker {
  readonly process: SimulatedProcess
  readonly calls: IpcCalls<QuotaCalls>
  readonly notices: NoticeListener[]
}
interface Supervisor {
  readonly host: Host
  /** Carries a call out; resolves when it may be answered. */
  take(request: TakeRequest, by: Worker): TakeReply | Promise<TakeReply>
  readonly authority: ReturnType<Quota['createEmbeddedAuthority']>
  readonly workers: Worker[]
  isEnding: boolean
  /** In order. */
  isStopping: boolean
}

export function createWorkersWorld(quota: Quota, schedule: Schedule) {
  const chance = createChance(schedule.seed)
  const time = createVirtualTime(chance)
  const faults = new Map<string, number>()
  const surroundings = { time, chance }
  // The one under way and one's own, and more where something is handed back.
  const calls = schedule.refund > 0 ? 12 : 2
  const ledger = createLedger(
    { isExact: true, isAlone: false, forgets: false, waitsAtMostMs: calls * 2 * TIMEOUT_MS + 100 },
    time,
  )
  const startMs = startOf(schedule)
  const epochMs = (): number => startMs + time.nowMs
  const disk = createDisk({ time, chance })
  let wellAtMs = 0
  let quietUntilMs = 0
  const clients = schedule.clients.map((limits, at) => ({ id: `client-${at}`, limits }))
  /** By client and window: the most that was ever taken in the window that runs. */
  const peaks = new Map<string, { index: number; taken: number }>()
  const everyProcess: SimulatedProcess[] = []

  /** One direction of a channel: nothing overtakes. */
  const pipe = () => {
    let lastMs = 0
    return (to: { deliver: Host['deliver'] }, task: () => void): void => {
      lastMs = Math.max(
        lastMs + 1e-6,
        time.nowMs + chance.between(0.03, chance.perMille(20) ? 9 : 0.6),
      )
      time.at(lastMs, () => to.deliver('io', task))
    }
  }

  const startWorker = (boss: Supervisor, slot: number): void => {
    const [up, down] = [pipe(), pipe()]
    const notices: NoticeListener[] = []
    const link = (process: SimulatedProcess): Authority => {
      const answer = (answers: AnswerBatch): void =>
        down(process, () => calls.receive(structuredClone(answers)))
      const handlers = {
        take: (request: TakeRequest) => boss.take(request, worker),
        beat: boss.authority.beat,
      }
      const calls: IpcCalls<QuotaCalls> = new quota.IpcCalls<QuotaCalls>({
        timeoutMs: 2 * TIMEOUT_MS,
        send: (batch) => {
          const sent = structuredClone(batch)
          up(boss.host, () => quota.answerCalls<QuotaCalls>(handlers, sent, answer))
        },
      })
      const worker: Worker = { process, calls, notices }
      boss.workers[slot] = worker
      const ipc = quota.createIpcAuthority({
        calls,
        onNotice: (listener) => void notices.push(listener),
      })
      const { witness } = process
      const answered = async (request: TakeRequest, asked: ReturnType<Authority['take']>) => {
        const { client } = request
        try {
          const reply = await asked
          ledger.heard(witness, client, { reply, clockMs: startMs })
          return reply
        } catch (fault) {
          ledger.late(client, { waited: process.undecidedOf(client), hasArrived: false })
          throw fault
        } finally {
          ledger.ended(witness, client)
        }
      }
      return {
        ...ipc,
        beat: async (beat) => {
          const beats: unknown = await ipc.beat?.(beat)
          // Whoever is given the answer to another call cannot read it.
          if (!(beats instanceof Map))
            throw (ledger.violation ??= new Violation('each call has its own answer', 'of a beat'))
          return beats as Beats
        },
        // Throws at once while the supervisor is away.
        take: (request) => {
          const asked = ipc.take(request)
          ledger.sent(witness, request)
          return answered(request, asked)
        },
      }
    }
    const process = createSimulatedProcess(
      `w${slot}x${everyProcess.length}`,
      { ...surroundings, ledger },
      { quota, schedule, link, startMs },
    )
    everyProcess.push(process)
  }

  const startSupervisor = (): Supervisor => {
    const host = createHost(surroundings)
    const nowMs = epochMs()
    const now = { minuteIndex: Math.floor(nowMs / MINUTE_MS), dayIndex: Math.floor(nowMs / DAY_MS) }
    let boss!: Supervisor
    host.deliver('io', () => {
      const rows = disk.openedBy(host)
      const journal = new quota.Journal({
        rows,
        clock: { epochMs },
        timers: host.timers,
        timeoutMs: TIMEOUT_MS,
        onFault: () => undefined,
        onRecovered: () => undefined,
      })
      const latest: { written?: Promise<void> | undefined } = {}
      // The books have to be told of a call before it is answered: so whoever waits for the disk waits here.
      const seen = {
        carriedOut: (...call: Parameters<typeof journal.carriedOut>): undefined => {
          latest.written = journal.carriedOut(...call)
        },
        mayForget: (client: Parameters<typeof journal.mayForget>[0]) => journal.mayForget(client),
        close: () => journal.close(),
        get unsaved() {
          return journal.unsaved
        },
      }
      const authority = quota.createEmbeddedAuthority({
        clock: { epochMs },
        keeper: seen as unknown as typeof journal,
      })
      authority.restore(disk.load(now))
      journal.begin()
      const take = (request: TakeRequest, by: Worker): TakeReply | Promise<TakeReply> => {
        latest.written = undefined
        const reply = authority.take(request) as TakeReply
        const { notice } = reply
        ledger.carriedOut(request, reply)
        notePeaks(request.client)
        const answered = (): TakeReply => {
          if (notice !== undefined)
            for (const { process, notices } of boss.workers)
              if (process !== by.process)
                time.at(time.nowMs + chance.between(0.03, 0.6), () =>
                  process.deliver('io', () =>
                    notices.forEach((listener) =>
                      listener(request.client, notice, undefined, reply),
                    ),
                  ),
                )
          return reply
        }
        const { written } = latest as { written: Promise<void> | undefined }
        return written === undefined ? answered() : written.then(answered)
      }
      boss = { host, take, authority, workers: [], isEnding: false, isStopping: false }
    })
    for (let slot = 0; slot < schedule.processes; slot++) startWorker(boss, slot)
    return boss
  }
  const notePeaks = (client: string): void => {
    const account = ledger.accounts.get(client)
    for (const window of windows) {
      const { index = 0, taken = 0 } = account?.current[window] ?? {}
      const peak = peaks.get(`${client} ${window}`)
      const before = peak?.index === index ? peak.taken : 0
      peaks.set(`${client} ${window}`, { index, taken: Math.max(before, taken) })
    }
  }

  /** The books go on from the rows: what a crash forgets was admitted by nobody, and what it strands is less than a lease. */
  const restore = (isOrderly: boolean): void => {
    const nowMs = epochMs()
    const now = { minute: Math.floor(nowMs / MINUTE_MS), day: Math.floor(nowMs / DAY_MS) }
    for (const { id, limits } of clients) {
      const account = ledger.accounts.get(id)
      if (account === undefined) continue
      const row = disk.rows.get(id)
      account.book.clear()
      for (const window of windows) {
        const { current } = account
        const { index, taken } = current[window]
        const isNow = row?.[`${window}Index`] === now[window]
        const kept = isNow ? row[`${window}Taken`] : 0
        const known = index === now[window] ? taken : 0
        const admitted = account.admitted[window].get(now[window]) ?? 0
        const detail = JSON.stringify({ id, window, row, known, admitted, now })
        if (kept < admitted)
          throw new Violation('a crash forgets nothing that was admitted', detail)
        if (isOrderly && kept !== known)
          throw new Violation('after an orderly stop every count is exact', detail)
        const peak = peaks.get(`${id} ${window}`)
        const most = peak?.index === now[window] ? peak.taken : 0
        if (kept > most + Math.max(1, Math.floor(limits.perMinute * AHEAD)))
          throw new Violation('a crash strands less than a lease', detail)
        const { limit } = current[window]
        const isOpen = index === now[window]
        Object.assign(current[window], {
          index: isNow || isOpen ? now[window] : -1,
          taken: kept,
          used: kept,
          limit: isOpen ? limit : 0,
        })
      }
      notePeaks(id)
    }
  }
  const begin = (isOrderly: boolean): void => {
    const nowMs = epochMs()
    disk.load({ minuteIndex: Math.floor(nowMs / MINUTE_MS), dayIndex: Math.floor(nowMs / DAY_MS) })
    restore(isOrderly)
    boss = startSupervisor()
  }

  const endTimers = ownTimers()
  let boss = startSupervisor()
  const workerAt = (index: number): Worker => boss.workers[index % boss.workers.length] as Worker

  /** The workers take no more, finish, return what they hold and end; then the supervisor writes what is left and ends. */
  const stop = (stopped: Supervisor, downMs: number): void => {
    stopped.isEnding = stopped.isStopping = true
    const living = stopped.workers.filter(({ process }) => !process.isDead)
    for (const { process } of living) process.resume()
    let left = living.length
    const close = (): void =>
      void stopped.authority.close().then(() => {
        stopped.host.kill()
        time.at(time.nowMs + downMs, () => begin(true))
      })
    const ended = (process: SimulatedProcess): void => {
      process.kill()
      left -= 1
      if (left === 0) time.at(time.nowMs, () => stopped.host.deliver('io', close))
    }
    if (left === 0) return stopped.host.deliver('io', close)
    for (const { process } of living)
      process.later(FINISH_MS, () => void process.lessee.drain().then(() => ended(process)))
  }

  const crash = (
    { host, workers }: Supervisor,
    { orphansMs, downMs }: { orphansMs: number; downMs: number },
  ): void => {
    boss.isEnding = true
    host.kill()
    for (const { process, calls } of workers) {
      process.resume()
      time.at(time.nowMs + chance.between(0, 2), () => process.deliver('io', () => calls.close()))
      time.at(time.nowMs + chance.between(0, orphansMs), () => process.kill())
    }
    time.at(time.nowMs + downMs, () => begin(false))
  }

  const world = {
    time,
    chance,
    ledger,
    faults,
    clients,
    storeNowMs: epochMs,
    processCount: () => everyProcess.length,
    endTimers,

    offer: (clientIndex: number, slotIndex: number): void => {
      const client = clients[clientIndex % clients.length]
      if (client !== undefined && !boss.isStopping)
        workerAt(slotIndex).process.request(client.id, client.limits)
    },

    happen: (event: Event): void => {
      if (boss.isEnding || event.kind === 'none') return
      const now = boss
      const happened = (): void => void faults.set(event.kind, (faults.get(event.kind) ?? 0) + 1)
      switch (event.kind) {
        case 'crash': {
          const slot = event.process % now.workers.length
          workerAt(slot).process.kill()
          happened()
          return time.at(time.nowMs + event.downMs, () => {
            if (!now.isEnding && now.workers[slot]?.process.isDead === true) startWorker(now, slot)
          })
        }
        case 'pause': {
          const { process } = workerAt(event.process)
          process.pause()
          happened()
          quietUntilMs = Math.max(quietUntilMs, time.nowMs + event.forMs + QUIET_MS)
          return time.at(time.nowMs + event.forMs, () => process.resume())
        }
        case 'late':
          if (time.nowMs < quietUntilMs) return
          quietUntilMs = time.nowMs + event.forMs + QUIET_MS
          now.host.pause()
          happened()
          return time.at(time.nowMs + event.forMs, () => now.host.resume())
        case 'supervisor stands still':
          now.host.pause()
          happened()
          return time.at(time.nowMs + event.forMs, () => now.host.resume())
        case 'disk':
          if (event.how === 'hangs') disk.hang(event.forMs)
          else disk.fail(event.forMs)
          wellAtMs = Math.max(wellAtMs, time.nowMs + event.forMs + WELL_AFTER_MS)
          return happened()
        case 'supervisor crash':
          return time.at(time.nowMs + event.afterMs, () => {
            // What was taken while nothing could be written is forgotten: that is said, and not played.
            if (now.isEnding || time.nowMs < wellAtMs || now.host.isPaused) return
            happened()
            crash(now, event)
          })
        case 'supervisor stop':
          if (time.nowMs < wellAtMs) return
          happened()
          now.host.resume()
          return stop(now, event.downMs)
        case 'reset': {
          const client = clients[event.client % clients.length]
          if (client === undefined) return
          happened()
          const { id, limits } = client
          const tell = (): void => {
            for (const { process, notices } of now.workers)
              time.at(time.nowMs + chance.between(0.03, 0.6), () =>
                process.deliver('io', () => notices.forEach((listener) => listener(id, 'reset'))),
              )
          }
          tell()
          return time.at(time.nowMs + STATED_AFTER_MS, () =>
            now.host.deliver('io', () => {
              void now.authority.attend(id, limits, (state, nowMs) => {
                if (quota.look(state, nowMs).day.index !== state.counts.day.index) return
                quota.reset(state, event.windows, nowMs)
                const witnesses = everyProcess.map(({ witness }) => witness)
                ledger.reset(id, event.windows, { state, witnesses })
              })
              tell()
            }),
          )
        }
        default:
          throw new Error(`no machine has this: ${event.kind}`)
      }
    },

    passUntil: (endMs: number, load?: Arrivals): Promise<void> =>
      passUntil(time, endMs, {
        load,
        violation: () => ledger.violation,
      }),

    /** Everything goes on and is stopped in order; then the rows must say what was admitted. */
    finish: async (): Promise<void> => {
      for (let turn = 0; turn < 2; turn++) {
        boss.host.resume()
        for (const { process } of boss.workers) process.resume()
        await world.passUntil(time.nowMs + 12_000)
      }
      const late = boss.workers.filter(({ process }) => !process.isDead && process.undecided > 0)
      if (late.length > 0) throw new Violation('decisions always come', 'requests wait for ever')
      const last = boss
      stop(last, 1e9)
      await world.passUntil(time.nowMs + FINISH_MS + 5000)
      if (!last.host.isDead) throw new Violation('a stop ends', 'the supervisor lives')
      for (const { process } of last.workers) ledger.closed(process.witness, { isGone: false })
      restore(true)
    },
  }
  return world
}
