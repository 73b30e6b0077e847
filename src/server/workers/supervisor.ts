/** Supervises workers that are processes of their own. This process serves no request itself. */
import type { WorkerState } from '../../admin/state-operations.ts'
import type { Config, ListenAddress } from '../../config/config.ts'
import { createBackends } from '../../core/backends/backend.ts'
import { Balancer } from '../../core/backends/balancer.ts'
import type { BackendHealth } from '../../core/backends/health.ts'
import { createBackendProbe, type BackendProbe } from '../../core/backends/probe.ts'
import type { OperatorBans } from '../../core/bans/operator-bans.ts'
import { openListenSockets, type ListenSockets } from '../../core/http/bound-sockets.ts'
import { keepDaily, newSecret } from '../../core/http/ticket-secret.ts'
import { renderSnapshots, type MetricsSnapshot } from '../../core/record/metric-registry.ts'
import { createSupervisorMetrics } from '../../core/record/whole-families.ts'
import { unpackSecond } from '../../insight/live/packed-second.ts'
import type { OwnState } from '../../state/contract.ts'
import { answerCalls } from '../../state/supervisor/calls.ts'
import { Gateway, ListenError, type GatewayOptions } from '../gateway/gateway.ts'
import { newGatewayId } from '../gateway/lasting-parts.ts'
import type { Prepared } from '../gateway/reloader.ts'
import { openStores } from '../gateway/stores.ts'
import { readBackendTls } from '../gateway/tls-files.ts'
import { backendsSeen, type Workers, type WorkersParts } from '../gateway/worker-link.ts'
import type { ClientNotice, ToWorker } from './messages.ts'
import { ReloadRound } from './reload-round.ts'
import { createRetiredCounters } from './retired-counters.ts'
import { createSharedState, type SharedState } from './shared-state.ts'
import { Slot } from './slot.ts'
import { defaultWatchdog, watchWorkers, type WatchdogOptions } from './watchdog.ts'
import { WorkerFailed, WorkerProcess, type WorkerProcessOptions } from './worker-process.ts'

export interface SupervisorOptions extends GatewayOptions {
  /** The file that a worker runs. */
  readonly entry: string
  readonly watchdog?: WatchdogOptions
}

/** Creates a gateway whose workers are processes of their own. */
export function createSupervisor(config: Config, options: SupervisorOptions) {
  let supervisor: Supervisor | undefined
  const gateway = new Gateway(
    config,
    options,
    (parts) => (supervisor = new Supervisor(config, options, parts)),
  )
  return Object.assign(gateway, {
    /** Replaces one worker after the other, losing no request. Never rejects. */
    roll: oneAtATime(async () => supervisor?.roll()),
    /** Ends the workers at once, for a process that is about to end itself. */
    abandon: () => supervisor?.abandon(),
  })
}

/** Time that workers have to report a second that is over. */
const WORKERS_LATE_MS = 250
/** A killed worker loses its counts of this time at most, however seldom anybody asks for them. */
const MEASURE_EVERY_MS = 2_000
/** A worker reports each second; its state is unknown after so long a silence. */
const SILENT_MS = 3_000

class Supervisor implements Workers {
  readonly reportsLateMs = WORKERS_LATE_MS
  /** The supervisor has a Redis connection of its own: what operators ask and do does not wait for a worker. */
  readonly stores: OwnState
  readonly operatorBans: OperatorBans
  readonly #options: SupervisorOptions
  readonly #parts: WorkersParts
  readonly #state: SharedState
  readonly #metrics: ReturnType<typeof createSupervisorMetrics>
  readonly #retired = createRetiredCounters()
  readonly #tickets = keepDaily(newSecret(Date.now()))
  readonly #gatewayId = newGatewayId()
  /** Used where no worker has reported the state of the backends. Written by prepare. */
  #probe: BackendProbe
  /** One for each worker. Written by listen, as are the next two. */
  #slots: readonly Slot[] = []
  #sockets: ListenSockets | undefined
  #stopWatching: (() => void) | undefined
  /** A configuration that is about to be taken. Written by prepare, and by what it resolves with. */
  #round: ReloadRound | undefined
  /** Whether anybody listens to decisions. Written by listenToDecisions. */
  #areDecisionsWanted = false
  /** Written by #end. */
  #isDraining = false
  /** Written by measure. */
  #isMeasuring = false

  constructor(config: Config, options: SupervisorOptions, parts: WorkersParts) {
    const { log } = options
    const { whole, usageDropped, addresses } = parts
    this.#options = options
    this.#parts = parts
    this.#probe = createProbe(config)
    const stores = openStores({ config, log })
    this.#metrics = createSupervisorMetrics(whole)
    this.#metrics.watchUsage(usageDropped)
    this.#metrics.watchLog(log.lostLines)
    this.#state = createSharedState({
      config,
      addresses,
      embedded: stores.embedded,
      banStore: stores.bans,
      clock: stores.clock,
      onBan: (keyId, ban) => this.#notifyAll({ kind: 'banned', keyId, ban }),
      onMalformed: (where) => log.banMalformed({ where }),
    })
    stores.embedded?.onNotice?.((client, notice) =>
      this.#notifyAll({ kind: 'quota', notices: [{ client, notice }] }),
    )
    this.stores = stores
    this.operatorBans = this.#state.operatorBans
  }

  ready(): Promise<void> {
    return this.#state.ready()
  }

  async listen(): Promise<ListenAddress> {
    const { server } = this.#parts.config()
    try {
      const sockets = await openListenSockets(server.listen).catch((error: unknown) => {
        throw new ListenError('public', error)
      })
      this.#sockets = sockets
      this.#slots = Array.from({ length: server.workers }, (_, at) => this.#slot(at + 1, sockets))
      await Promise.all(this.#slots.map((slot) => slot.start()))
      for (const slot of this.#slots) slot.keep()
      this.#stopWatching = this.#watch()
      return sockets.address
    } catch (error) {
      this.abandon()
      await this.#end(0)
      throw asListenError(error)
    }
  }

  /** All workers build it aside; rejects with why one of them cannot, and then none has changed. */
  async prepare(config: Config): Promise<Prepared> {
    const probe = createProbe(config)
    const members = this.links.filter(({ state }) => state === 'starting' || state === 'listening')
    const round = new ReloadRound(config, members)
    this.#round = round
    const settle = (verdict: 'commit' | 'abort'): void => {
      this.#round = undefined
      round.settle(verdict)
    }
    await round.prepared.catch((error: unknown) => {
      settle('abort')
      throw error
    })
    return {
      revision: config.revision,
      commit: () => {
        // Where backends are checked the workers soon report their state; until then it is as before.
        if (config.upstream.health === undefined) this.#probe = probe
        this.#state.use(config)
        this.#options.log.use(config.log)
        settle('commit')
      },
      abort: () => settle('abort'),
    }
  }

  /** Ends all workers after what is in flight, kills those that do not end, and starts no more. Never rejects. */
  async drain({ idleMs }: { readonly idleMs: number }): Promise<void> {
    const workers = this.links.filter(({ state }) => state === 'listening').length
    this.#options.log.supervision({ level: 'info', event: 'workersDraining', workers })
    await this.#end(idleMs)
  }

  async close(): Promise<void> {
    await this.#state.close()
    await this.stores.close()
  }

  /** Stops at the first worker that cannot be replaced. Runs once at a time. */
  async roll(): Promise<void> {
    if (this.#isDraining) return
    const { log } = this.#options
    const workers = this.#slots.length
    log.supervision({ level: 'info', event: 'rollStarted', workers })
    for (const slot of this.#slots) {
      if (!this.#isDraining && (await slot.replace())) continue
      if (this.#isDraining)
        log.supervision({ level: 'info', event: 'rollStopped', cause: 'the gateway stops' })
      return
    }
    log.supervision({ level: 'info', event: 'rollDone', workers })
  }

  /** Kills all workers, in this very call. */
  abandon(): void {
    for (const worker of this.links) worker.kill()
  }

  get links(): readonly WorkerProcess[] {
    return this.#slots.flatMap(({ alive }) => [...alive])
  }

  /** All processes, in the order of their slots. */
  get processes(): readonly WorkerState[] {
    const nowMs = performance.now()
    return this.#slots.flatMap(({ alive, restarts }) =>
      Array.from(alive, ({ number, state, sinceMs, now, pid = 0 }) => ({
        number,
        pid,
        state,
        sinceMs,
        restarts,
        now: now && nowMs - now.receivedMs < SILENT_MS ? now : undefined,
      })),
    )
  }

  get restarts(): number {
    return this.#slots.reduce((sum, { restarts }) => sum + restarts, 0)
  }

  readonly measure = oneAtATime(async (): Promise<readonly MetricsSnapshot[]> => {
    // These are read before the question: the own answer of a worker that ends meanwhile has its values already.
    const dead = this.#retired.snapshots()
    this.#isMeasuring = true
    const latest = await Promise.all(this.links.map((worker) => worker.measure()))
    this.#isMeasuring = false
    return [...latest.filter((one) => one !== undefined), ...dead]
  })

  readonly renderMetrics = oneAtATime(async () =>
    renderSnapshots([...(await this.measure()), await this.#metrics.snapshot()]),
  )

  probeBackends(): Promise<readonly BackendHealth[]> {
    return this.#probe(backendsSeen(this.links))
  }

  listenToDecisions(isWanted: boolean): void {
    this.#areDecisionsWanted = isWanted
    this.#notifyAll({ kind: 'listen', isWanted })
  }

  /** Sends a notice; see WorkerProcess. */
  #notifyAll(message: ToWorker, except?: WorkerProcess): void {
    for (const worker of this.links) if (worker !== except) worker.notify(message)
  }

  #slot(number: number, sockets: ListenSockets): Slot {
    return new Slot(number, {
      sockets,
      drainMs: () => this.#parts.config().server.timeouts.drainMs,
      startWorker: (listenFd) => this.#startWorker(number, listenFd),
      onEnded: ({ latest }) => this.#retired.add(latest),
      log: (line) => this.#options.log.supervision(line),
    })
  }

  #startWorker(number: number, listenFd: number): WorkerProcess {
    const { entry, version, log } = this.#options
    const worker: WorkerProcess = new WorkerProcess({
      entry,
      start: {
        number,
        version,
        config: this.#parts.config(),
        ticketSecret: this.#tickets.today(),
        gatewayId: this.#gatewayId,
      },
      listenFd,
      onLines: (lines) => log.relay(lines),
      onMessage: this.#receiver(() => worker),
    })
    worker.listening.then(
      () => worker.notify({ kind: 'listen', isWanted: this.#areDecisionsWanted }),
      () => undefined,
    )
    this.#round?.join(worker)
    return worker
  }

  /** Returns the receiver of what one worker sends. */
  #receiver(worker: () => WorkerProcess): WorkerProcessOptions['onMessage'] {
    const { onSecond, onDecisions } = this.#parts
    const handlers = this.#state.handlers(
      oncePerTurn((notices) => this.#notifyAll({ kind: 'quota', notices }, worker())),
    )
    return (message, send) => {
      if (message.kind === 'calls') answerCalls(handlers, message, send)
      else if (message.kind === 'second') onSecond(unpackSecond(message.second))
      else onDecisions(message.decisions, message.untold)
    }
  }

  /** Kills workers that hang, and keeps the values of those that may end at any time. The returned function ends it. */
  #watch(): () => void {
    const { log, watchdog = defaultWatchdog } = this.#options
    const stopWatchdog = watchWorkers(
      watchdog,
      () => this.links,
      (worker) => {
        const silentMs = watchdog.silentBeats * watchdog.everyMs
        const { number, pid } = worker
        log.supervision({ level: 'error', event: 'workerHung', worker: number, pid, silentMs })
        worker.kill()
      },
    )
    const measuring = setInterval(() => {
      // This runs apart from measure: a later question must not get an earlier answer.
      if (!this.#isMeasuring) for (const worker of this.links) void worker.measure()
    }, MEASURE_EVERY_MS).unref()
    return () => {
      stopWatchdog()
      clearInterval(measuring)
    }
  }

  async #end(idleMs: number): Promise<void> {
    this.#isDraining = true
    this.#stopWatching?.()
    const drained = this.#slots.map((slot) => slot.drain(idleMs))
    this.#sockets?.close()
    await Promise.all(drained)
  }
}

/** Calls that come during a run share its result: a crowd of scrapers costs the workers no more than one. */
function oneAtATime<Result>(make: () => Promise<Result>): () => Promise<Result> {
  let underway: Promise<Result> | undefined
  return () =>
    (underway ??= make().finally(() => {
      underway = undefined
    }))
}

/** Passes a worker's notices on to the others once per turn of the event loop. */
function oncePerTurn(
  notify: (notices: readonly ClientNotice[]) => void,
): (notice: ClientNotice) => void {
  let waiting: ClientNotice[] = []
  return (notice) => {
    if (waiting.push(notice) > 1) return
    setImmediate(() => {
      notify(waiting)
      waiting = []
    })
  }
}

/** Requests are the workers'; this probe only finds out whether connections can be made. */
function createProbe({ upstream }: Config): BackendProbe {
  const backends = createBackends(upstream, readBackendTls(upstream))
  return createBackendProbe(new Balancer(backends, upstream), upstream)
}

/** Turns a worker's fault at the public listener into one of this process; returns any other fault as it is. */
function asListenError(error: unknown): unknown {
  const { fault } = error instanceof WorkerFailed ? error.exit : {}
  if (fault?.isListener)
    return new ListenError('public', Object.assign(new Error(fault.message), { code: fault.code }))
  const isBind = (error as NodeJS.ErrnoException).syscall === 'bind'
  return isBind ? new ListenError('public', error) : error
}
