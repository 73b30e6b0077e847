/** Supervises workers that are processes of their own. This process serves no request itself. */
import { url as debuggerUrl } from 'node:inspector'
import type { Config, ListenAddress } from '../../config/config.ts'
import { createBackends, type BackendHealth } from '../../core/backends/backend.ts'
import { Balancer } from '../../core/backends/balancer.ts'
import { BackendChecks, type BackendProbe } from '../../core/backends/checks.ts'
import type { BanTable } from '../../core/bans/ban-table.ts'
import { keepDaily, newSecret } from '../../core/http/ticket-secret.ts'
import {
  countersOf,
  sumSnapshots,
  type MetricsSnapshot,
} from '../../core/record/metric-registry.ts'
import { lossMetrics } from '../../core/record/metrics.ts'
import type { OwnState } from '../../state/contract.ts'
import { Gateway, type GatewayOptions } from '../gateway/gateway.ts'
import type { Prepared } from '../gateway/reloader.ts'
import { openStores } from '../gateway/stores.ts'
import { readBackendTls } from '../gateway/tls-files.ts'
import { seenBy, type Workers } from '../gateway/worker-link.ts'
import { openListenSockets, type ListenSockets } from './listen-sockets.ts'
import type { ClientNotice, ToWorker } from './messages.ts'
import { createSharedState, type SharedState } from './shared-state.ts'
import { Slot, type SlotOptions } from './slot.ts'
import { WorkerProcess } from './worker-process.ts'

/** silentMs: silence after which a worker counts as hanging. */
const WATCHDOG = { everyMs: 1_000, silentMs: 10_000 }

interface SupervisorOptions extends GatewayOptions {
  readonly entry: string
}

export const createSupervisor = (config: Config, options: SupervisorOptions): Gateway =>
  new Gateway(config, options, (gateway) => new Supervisor(gateway, options.entry))

class Supervisor implements Workers {
  /** The embedded store, which the workers ask through this process, or a connection to Redis of its own: no operator waits for a worker. */
  readonly stores: OwnState
  readonly operatorBans: BanTable
  readonly #gateway: Gateway
  readonly #entry: string
  readonly #state: SharedState
  readonly #retired = createRetiredCounters()
  readonly #tickets = keepDaily(newSecret(Date.now()))
  /** Answers for readiness: by the workers' reports where `health` is set, else by trying the backends itself. Written by prepare. */
  #probe: BackendProbe
  /** One for each worker. Written by listen, as are the next two. */
  #slots: readonly Slot[] = []
  #sockets: ListenSockets | undefined
  #stopWatching: (() => void) | undefined
  /** Settled when the reload under way is over, by commit or abort; a worker that starts meanwhile begins with what is in force then. */
  #round: Promise<void> = Promise.resolve()
  #isDraining = false

  constructor(gateway: Gateway, entry: string) {
    const { log, registry, addresses, reloads } = gateway
    const { config } = reloads
    this.#gateway = gateway
    this.#entry = entry
    this.#probe = createProbe(config)
    const stores = openStores({ config, log })
    const losses = lossMetrics(registry)
    losses.watchUsage(() => gateway.usage.dropped)
    losses.watchLog(log.lostLines)
    losses.watchLogFault(() => Number(log.fault() !== undefined))
    this.#state = createSharedState({
      config,
      addresses,
      stores,
      onBan: (keyId, ban) => this.#notifyAll({ kind: 'banned', keyId, ban }),
    })
    stores.embedded?.onNotice?.((client, notice) =>
      this.#notifyAll({ kind: 'quota', notices: [{ client, notice }] }),
    )
    this.stores = stores
    this.operatorBans = this.#state.operatorBans
  }

  async ready(): Promise<void> {
    // With Redis each worker waits for it.
    if (this.stores.embedded !== undefined) await this.stores.ready()
    await this.#state.ready()
  }

  async listen(): Promise<ListenAddress> {
    const { server } = this.#gateway.reloads.config
    try {
      const sockets = await openListenSockets(server.listen)
      this.#sockets = sockets
      const options: SlotOptions = {
        sockets,
        drainMs: () => this.#gateway.reloads.config.server.timeouts.drainMs,
        startWorker: (...which) => this.#startWorker(...which),
        log: (line) => this.#gateway.log.supervision(line),
      }
      this.#slots = Array.from({ length: server.workers }, (_, at) => new Slot(at + 1, options))
      await Promise.all(this.#slots.map((slot) => slot.start()))
      this.#stopWatching = watchWorkers(
        WATCHDOG,
        () => this.#in('listening'),
        (worker) => this.#onHung(worker),
      )
      return sockets.address
    } catch (error) {
      this.abandon()
      await this.#end(0)
      throw error
    }
  }

  /** All listening workers build the configuration aside; rejects with the reason of one that cannot, and then none has changed. */
  async prepare(config: Config): Promise<Prepared> {
    const probe = createProbe(config)
    const { promise, resolve: endRound } = Promise.withResolvers<void>()
    this.#round = promise
    await Promise.allSettled(this.#in('starting').map(({ listening }) => listening))
    const workers = this.#in('listening')
    const settle = (verdict: 'commit' | 'abort'): void => {
      for (const worker of workers) worker.settle(verdict)
      endRound()
    }
    try {
      await Promise.all(workers.map((worker) => worker.prepare(config)))
    } catch (error) {
      settle('abort')
      throw error
    }
    return {
      commit: () => {
        // Where backends are checked the workers soon report their state; until then it is as before.
        if (config.upstream.health === undefined) this.#probe = probe
        this.#state.use(config)
        this.#gateway.log.use(config.log)
        settle('commit')
      },
      abort: () => settle('abort'),
    }
  }

  /** Ends all workers after what is in flight, kills those that do not end, and starts no more. Never rejects. */
  async drain({ idleMs }: { readonly idleMs: number }): Promise<void> {
    const workers = this.#in('listening').length
    this.#gateway.log.supervision({ level: 'info', event: 'workersDraining', workers })
    await this.#end(idleMs)
  }

  async close(): Promise<void> {
    await this.#state.close()
    await this.stores.close()
  }

  readonly roll = oneAtATime(async (): Promise<void> => {
    if (this.#isDraining) return
    const { log } = this.#gateway
    const workers = this.#slots.length
    log.supervision({ level: 'info', event: 'rollStarted', workers })
    for (const slot of this.#slots) {
      if (!this.#isDraining && (await slot.replace())) continue
      if (this.#isDraining)
        log.supervision({ level: 'info', event: 'rollStopped', cause: 'the gateway stops' })
      return
    }
    log.supervision({ level: 'info', event: 'rollDone', workers })
  })

  readonly abandon = (): void => {
    for (const worker of this.links) worker.kill()
  }

  get links(): readonly WorkerProcess[] {
    return this.#slots.flatMap(({ alive }) => [...alive])
  }

  #in(wanted: WorkerProcess['state']): readonly WorkerProcess[] {
    return this.links.filter(({ state }) => state === wanted)
  }

  get restarts(): number {
    return this.#slots.reduce((sum, { restarts }) => sum + restarts, 0)
  }

  readonly measure = oneAtATime(async (): Promise<readonly MetricsSnapshot[]> => {
    // Both are read at once: the own answer of a worker that ends meanwhile has its values already.
    const [dead, workers] = [this.#retired.snapshots(), this.links]
    const latest = await Promise.all(workers.map((worker) => worker.measure()))
    const known = latest.filter((one) => one !== undefined)
    return [...known, ...(await dead), await this.#gateway.registry.snapshot()]
  })

  probeBackends(): Promise<readonly BackendHealth[]> {
    return this.#probe(seenBy(this.links).backendsOfEach)
  }

  #notifyAll(message: ToWorker, except?: WorkerProcess): void {
    for (const worker of this.links) if (worker !== except) worker.notify(message)
  }

  #startWorker(number: number, listenFd: number, restarts: number): WorkerProcess {
    const gateway = this.#gateway
    const { version, log } = gateway
    const worker: WorkerProcess = new WorkerProcess({
      entry: this.#entry,
      start: { number, version, ticketSecret: this.#tickets.today() },
      config: this.#round.then(() => gateway.reloads.config),
      listenFd,
      restarts,
      onLines: (lines) => log.relay(lines),
      handlers: this.#state.handlers(
        oncePerTurn((notices) => this.#notifyAll({ kind: 'quota', notices }, worker)),
      ),
      onSecond: (second) => gateway.addSecond(second),
    })
    void worker.ended.then(() => this.#retired.add(worker.latest))
    return worker
  }

  #onHung(worker: WorkerProcess): void {
    const line = { worker: worker.number, pid: worker.pid, silentMs: WATCHDOG.silentMs }
    this.#gateway.log.supervision({ level: 'error', event: 'workerHung', ...line })
    worker.kill()
  }

  async #end(idleMs: number): Promise<void> {
    this.#isDraining = true
    this.#stopWatching?.()
    const drained = this.#slots.map((slot) => slot.drain(idleMs))
    this.#sockets?.close()
    await Promise.all(drained)
  }
}

/** Finds workers that answer nothing any more, as their event loop hangs. Returns the call that ends it. */
export function watchWorkers<Worker extends Pick<WorkerProcess, 'heardMs'>>(
  { everyMs, silentMs }: typeof WATCHDOG,
  workers: () => readonly Worker[],
  onHung: (worker: Worker) => void,
): () => void {
  let lastMs = performance.now()
  const timer = setInterval(() => {
    const nowMs = performance.now()
    // A late look: this process was stopped, starved or suspended, and so were the workers; or their answers are still unread.
    const isExcused = nowMs - lastMs > 2 * everyMs || debuggerUrl() !== undefined
    lastMs = nowMs
    for (const worker of workers()) {
      const isHung = nowMs - worker.heardMs > silentMs && !isExcused
      if (isHung) onHung(worker)
      if (isHung || isExcused) worker.heardMs = nowMs
    }
  }, everyMs).unref()
  return () => clearInterval(timer)
}

/** Calls that come during a run share its result: a crowd of scrapers costs the workers no more than one. */
function oneAtATime<Result>(make: () => Promise<Result>): () => Promise<Result> {
  let underway: Promise<Result> | undefined
  return () => (underway ??= make().finally(() => (underway = undefined)))
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

/** Requests are the workers'; this probe connects to a backend, and asks it OPTIONS * where a worker reports failures. */
function createProbe({ upstream }: Config): BackendProbe {
  const backends = createBackends(upstream, readBackendTls(upstream))
  return new BackendChecks(new Balancer(backends, upstream), upstream).probe
}

/** The counters of workers that have ended, so that no sum falls with them. */
export function createRetiredCounters() {
  /** One at most. */
  let sum: Promise<readonly MetricsSnapshot[]> = Promise.resolve([])
  return {
    /** Adds the last values of a worker that has ended; its gauges ended with it. */
    add: (last: MetricsSnapshot | undefined) => {
      if (last === undefined) return
      sum = sum.then(async (earlier) => [await sumSnapshots([...earlier, countersOf(last)])])
    },
    /** Resolves with those of all that were added before this call. */
    snapshots: () => sum,
  }
}
