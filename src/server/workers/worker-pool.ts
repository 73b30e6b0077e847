/** Keeps the configured number of workers: starts and replaces them, notifies and asks all of them, and drains them. */
import { embeddedHealth, type StoreHealth } from '../../state/contract.ts'
import type { BackendHealth } from '../../core/backends/health.ts'
import type { KeySetFault } from '../../core/credentials/jwt-verifier.ts'
import type { MetricsSnapshot } from '../../core/record/metrics.ts'
import type { Shed } from '../../core/rules/overload.ts'
import type { Config } from '../../config/config.ts'
import type { Prepared } from '../gateway/reload.ts'
import type { ToWorker } from './messages.ts'
import { oneAtATime } from './one-at-a-time.ts'
import { ReloadRound } from './reload-round.ts'
import { createRetiredCounters } from './retired-counters.ts'
import { Slot, type SlotOptions } from './slot.ts'
import { watchWorkers, type WatchdogOptions } from './watchdog.ts'
import type { WorkerProcess } from './worker-process.ts'
import type { WorkerState } from '../../admin/state-operations.ts'

/** A killed worker loses its counts of this time at most, however seldom anybody asks for them. */
const MEASURE_EVERY_MS = 2_000
/** A worker reports each second; its state is unknown after so long a silence. */
const SILENT_MS = 3_000

export interface WorkerPoolOptions extends Omit<SlotOptions, 'onEnded'> {
  readonly count: number
  readonly watchdog: WatchdogOptions
}

export class WorkerPool {
  readonly #options: WorkerPoolOptions
  readonly #slots: readonly Slot[]
  readonly #retired = createRetiredCounters()
  /** A configuration that is about to be taken. Written by prepare, and by what it resolves with. */
  #round: ReloadRound | undefined
  /** Written by drain. */
  #isDraining = false
  /** Written by start. */
  #stopWatching: (() => void) | undefined
  /** Written by start. */
  #measuring: NodeJS.Timeout | undefined
  /** Written by measure. */
  #isMeasuring = false

  constructor(options: WorkerPoolOptions) {
    this.#options = options
    const onEnded = ({ latest }: WorkerProcess): void => this.#retired.add(latest)
    const startWorker: SlotOptions['startWorker'] = (...place) => {
      const worker = options.startWorker(...place)
      this.#round?.join(worker)
      return worker
    }
    this.#slots = Array.from(
      { length: options.count },
      (_, at) => new Slot(at + 1, { ...options, startWorker, onEnded }),
    )
  }

  /** Lets all workers build it aside; rejects with why one of them cannot, and then none has changed. */
  async prepare(config: Config): Promise<Omit<Prepared, 'revision'>> {
    const settle = (verdict: 'commit' | 'abort') => (): void => {
      this.#round = undefined
      round.settle(verdict)
    }
    const members = this.#alive().filter(
      ({ state }) => state === 'starting' || state === 'listening',
    )
    const round = new ReloadRound(config, members)
    this.#round = round
    await round.prepared.catch((error: unknown) => {
      settle('abort')()
      throw error
    })
    return { commit: settle('commit'), abort: settle('abort') }
  }

  /** Resolves when all take requests; rejects with the WorkerFailed of the first that cannot. */
  async start(): Promise<void> {
    await Promise.all(this.#slots.map((slot) => slot.start()))
    for (const slot of this.#slots) slot.keep()
    const { watchdog, log } = this.#options
    this.#stopWatching = watchWorkers(
      watchdog,
      () => this.#alive(),
      (worker) => {
        const silentMs = watchdog.silentBeats * watchdog.everyMs
        const { number, pid } = worker
        log({ level: 'error', event: 'workerHung', worker: number, pid, silentMs })
        worker.kill()
      },
    )
    this.#measuring = setInterval(() => {
      // This runs apart from measure: a later question must not get an earlier answer.
      if (!this.#isMeasuring) for (const worker of this.#alive()) void worker.measure()
    }, MEASURE_EVERY_MS).unref()
  }

  /** Replaces one worker after the other by a new one; stops at the first that cannot be replaced. Runs once at a time; never rejects. */
  async roll(): Promise<void> {
    if (this.#isDraining) return
    const { log } = this.#options
    const workers = this.#slots.length
    log({ level: 'info', event: 'rollStarted', workers })
    for (const slot of this.#slots) {
      if (!this.#isDraining && (await slot.replace())) continue
      if (this.#isDraining) log({ level: 'info', event: 'rollStopped', cause: 'the gateway stops' })
      return
    }
    log({ level: 'info', event: 'rollDone', workers })
  }

  /** Ends all workers after what is in flight, kills those that do not end, and starts no more. Never rejects. */
  async drain(): Promise<void> {
    this.#isDraining = true
    this.#stopWatching?.()
    clearInterval(this.#measuring)
    const drained = this.#slots.map((slot) => slot.drain())
    this.#options.sockets.close()
    await Promise.all(drained)
  }

  /** Kills all workers, in this very call. */
  kill(): void {
    for (const worker of this.#alive()) worker.kill()
  }

  /** Sends a notice; see WorkerProcess. */
  notifyAll(message: ToWorker, except?: WorkerProcess): void {
    for (const worker of this.#alive()) if (worker !== except) worker.notify(message)
  }

  /** Returns the values of all workers, with the counters of those that have ended. */
  readonly measure = oneAtATime(async (): Promise<readonly MetricsSnapshot[]> => {
    // These are read before the question: the own answer of a worker that ends meanwhile has its values already.
    const dead = this.#retired.snapshots()
    this.#isMeasuring = true
    const latest = await Promise.all(this.#alive().map((worker) => worker.measure()))
    this.#isMeasuring = false
    return [...latest.filter((one) => one !== undefined), ...dead]
  })

  get listening(): number {
    return this.#slots.filter(({ worker }) => worker?.state === 'listening').length
  }

  get restarts(): number {
    return this.#slots.reduce((sum, { restarts }) => sum + restarts, 0)
  }

  /** The store as the worst-off of the listening workers sees it. */
  get store(): StoreHealth {
    const seen = this.#slots.flatMap(({ worker }) =>
      worker?.state === 'listening' ? [worker.store] : [],
    )
    const refused = seen.find(({ refusal }) => refusal !== undefined)
    const lost = seen.find(({ available }) => !available)
    return refused ?? lost ?? seen.find(({ warning }) => warning !== undefined) ?? embeddedHealth
  }

  /** The fault of a worker without any key set comes before others. */
  get keySetFault(): KeySetFault | undefined {
    const faults = this.#slots.flatMap(({ worker }) => worker?.keySetFault ?? [])
    return faults.find(({ hasKeys }) => !hasKeys) ?? faults[0]
  }

  /** What each listening worker refuses because it has too much to do. */
  get sheds(): readonly Shed[] {
    return this.#slots.flatMap(({ worker }) => (worker?.state === 'listening' ? worker.shed : []))
  }

  /** The backends as each worker sees them that has reported some. */
  get backends(): readonly (readonly BackendHealth[])[] {
    return this.#alive().map(({ backends }) => backends)
  }

  /** All processes, in the order of their slots. */
  get processes(): readonly WorkerState[] {
    const nowMs = performance.now()
    return this.#slots.flatMap(({ alive, restarts }) =>
      Array.from(alive, ({ number, state, listeningSinceMs, now, pid }) => ({
        number,
        pid: pid ?? 0,
        state,
        sinceMs: listeningSinceMs && Date.now() - nowMs + listeningSinceMs,
        restarts,
        now: now && nowMs - now.receivedMs < SILENT_MS ? now : undefined,
      })),
    )
  }

  #alive(): WorkerProcess[] {
    return this.#slots.flatMap(({ alive }) => [...alive])
  }
}
