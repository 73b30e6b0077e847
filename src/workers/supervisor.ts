/** The composition root of a gateway of several processes: workers take the requests, this process looks after them. */
import { startAdminServer, type AdminServer } from '../admin/server.ts'
import { Balancer } from '../backends/balancer.ts'
import { worstOf } from '../backends/health.ts'
import { createBackendProbe, type BackendProbe } from '../backends/probe.ts'
import { answerCalls } from '../ipc/calls.ts'
import { createSupervisorMetrics, renderSnapshots } from '../observability/metrics.ts'
import type { Config } from '../config/config.ts'
import { storeInWords } from '../config/store-words.ts'
import { createBackends } from '../gateway/backends.ts'
import type { Gateway, GatewayOptions } from '../gateway/gateway.ts'
import { drainDelay } from '../gateway/drain-times.ts'
import type { Prepared, Reloadable } from '../gateway/reload.ts'
import { Reloader } from '../gateway/reloader.ts'
import { ListenError } from '../gateway/listen-error.ts'
import { createReadiness, embeddedHealth } from '../admin/readiness.ts'
import { openEmbeddedStores } from '../gateway/stores.ts'
import { openListenSockets, type ListenSockets } from '../listeners/bound-sockets.ts'
import type { ReloadOutcome, ReloadWish } from '../rules/reload-outcome.ts'
import { keepDaily, newSecret } from '../listeners/ticket-secret.ts'
import type { ClientNotice } from './messages.ts'
import { createSharedState, type SharedState } from './shared-state.ts'
import { defaultWatchdog, type WatchdogOptions } from './watchdog.ts'
import { WorkerPool } from './worker-pool.ts'
import { WorkerFailed } from './worker-exit.ts'
import { WorkerProcess } from './worker-process.ts'

export interface SupervisorOptions extends GatewayOptions {
  /** The file that a worker runs. */
  readonly entry: string
  readonly watchdog?: WatchdogOptions
}

export const createSupervisor = (config: Config, options: SupervisorOptions): Supervisor =>
  new Supervisor(config, options)

export class Supervisor implements Gateway, Reloadable {
  readonly #options: SupervisorOptions
  readonly #state: SharedState
  readonly #reloader: Reloader
  /** Asked where the workers do not know better. Written by prepare. */
  #probe: BackendProbe
  /** Both written by listen. */
  #admin: AdminServer | undefined
  #pool: WorkerPool | undefined
  /** Written by listen and drain. */
  #isListening = false

  constructor(config: Config, options: SupervisorOptions) {
    this.#options = options
    const { log, load } = options
    this.#reloader = new Reloader({ config, load, target: this, log })
    this.#probe = createProbe(config)
    this.#state = createSharedState({
      config,
      embedded: config.store.redis === undefined ? openEmbeddedStores(config, log) : undefined,
      onBan: (keyId, ban) => this.#pool?.notifyAll({ kind: 'banned', keyId, ban }),
      onMalformed: (where) => log.banMalformed({ where }),
    })
  }

  async listen() {
    const { server } = this.#reloader.config
    const { log } = this.#options
    try {
      await this.#state.ready()
      this.#admin = await this.#startAdmin().catch(refuse('admin'))
      const sockets = await openListenSockets(server.listen).catch(refuse('public'))
      this.#pool = this.#createPool(sockets)
      await this.#pool.start()
      this.#isListening = true
      // The admin API may have been asked for another one since.
      const { store, revision, warnings } = this.#reloader.config
      log.configTaken({ revision, store: storeInWords(store) })
      for (const problem of warnings) log.configWarning({ problem })
      log.listening({ listener: 'public', ...sockets.address })
      log.listening({ listener: 'admin', ...this.#admin.address })
      return { listen: sockets.address, admin: this.#admin.address }
    } catch (error) {
      this.abandon()
      await this.#close()
      throw asListenError(error)
    }
  }

  config(): Config {
    return this.#reloader.config
  }

  reload(wish?: ReloadWish): Promise<ReloadOutcome> {
    return this.#reloader.reload(wish)
  }

  async prepare(config: Config): Promise<Prepared> {
    const probe = createProbe(config)
    const workers = await this.#pool?.prepare(config)
    return {
      revision: config.revision,
      commit: () => {
        // Where they are checked the workers soon say how they are; until then it is as it was.
        if (config.upstream.health === undefined) this.#probe = probe
        this.#state.use(config)
        this.#options.log.use(config.log)
        workers?.commit()
      },
      abort: () => workers?.abort(),
    }
  }

  async drain(): Promise<void> {
    this.#isListening = false
    this.#reloader.close()
    await drainDelay(this.#options.log, this.#reloader.config.server.timeouts)
    const workers = this.#pool?.listening ?? 0
    this.#options.log.supervision({ level: 'info', event: 'workersDraining', workers })
    await this.#close()
  }

  /** Replaces one worker after the other, losing no request. Never rejects. */
  readonly roll = oneAtATime(async () => this.#pool?.roll())
  /** Ends the workers at once, for a process that is about to end itself. */
  readonly abandon = (): void => this.#pool?.kill()

  async #close(): Promise<void> {
    await this.#pool?.drain()
    await this.#admin?.close()
    await this.#state.close()
    await this.#options.log.close()
  }

  #startAdmin(): Promise<AdminServer> {
    const reloads = this.#reloader
    const { log } = this.#options
    const metrics = createSupervisorMetrics({
      listening: () => this.#pool?.listening ?? 0,
      restarts: () => this.#pool?.restarts ?? 0,
      unsavedSeconds: () => this.#state.unsaved()?.seconds ?? 0,
      reloads: () => reloads,
    })
    return startAdminServer({
      listen: reloads.config.admin.listen,
      reloads,
      audit: log.audit,
      auditRefused: log.auditRefused,
      renderMetrics: oneAtATime(async () => {
        const ofWorkers = (await this.#pool?.measure()) ?? []
        return renderSnapshots([...ofWorkers, await metrics.snapshot()])
      }),
      readiness: createReadiness({
        reloads,
        listener: () => {
          if (!this.#isListening) return { ok: false, reason: 'starting or draining' }
          const listening = this.#pool?.listening ?? 0
          return {
            ok: listening > 0,
            reason: `${listening} of ${reloads.config.server.workers} workers`,
          }
        },
        store: () => this.#pool?.store ?? embeddedHealth,
        unsaved: () => this.#state.unsaved(),
        keySetFault: () => this.#pool?.keySetFault,
        sheds: () => this.#pool?.sheds ?? [],
        backends: async () => {
          const seen = this.#pool?.backends ?? []
          // Where they are checked, only the workers know.
          const { health } = reloads.config.upstream
          const isKnown = health !== undefined && seen.flat().length > 0
          return worstOf(isKnown ? seen : [await this.#probe(), ...seen])
        },
      }),
      onError: (error) => log.adminFailed(error),
    })
  }

  #createPool(sockets: ListenSockets): WorkerPool {
    const { entry, version, watchdog = defaultWatchdog } = this.#options
    const config = (): Config => this.#reloader.config
    const ticketSecret = keepDaily(newSecret(Date.now()))
    return new WorkerPool({
      count: config().server.workers,
      sockets,
      drainMs: () => config().server.timeouts.drainMs,
      watchdog,
      startWorker: (number, listenFd) => {
        const notify = oncePerTurn((notices) =>
          this.#pool?.notifyAll({ kind: 'quota', notices }, worker),
        )
        const handlers = this.#state.handlers(notify)
        const worker: WorkerProcess = new WorkerProcess({
          entry,
          start: {
            number,
            version,
            config: config(),
            ticketSecret: ticketSecret.today(),
          },
          listenFd,
          onLines: (lines) => this.#options.log.relay(lines),
          onCalls: (batch, send) => answerCalls(handlers, batch, send),
        })
        return worker
      },
      log: (line) => this.#options.log.supervision(line),
    })
  }
}

/** Requests are the workers': here is only heard whether connections can be made. */
function createProbe({ upstream }: Config): BackendProbe {
  return createBackendProbe(new Balancer(createBackends(upstream), upstream), upstream)
}

const refuse = (listener: 'public' | 'admin') => (error: unknown) => {
  throw new ListenError(listener, error)
}

/** A worker that could not have the public listener, as if the fault had come up here; any other fault as it is. */
function asListenError(error: unknown): unknown {
  const { fault } = error instanceof WorkerFailed ? error.exit : {}
  if (fault?.isListener)
    return new ListenError('public', Object.assign(new Error(fault.message), { code: fault.code }))
  const isBind = (error as NodeJS.ErrnoException).syscall === 'bind'
  return isBind ? new ListenError('public', error) : error
}

/** Whoever asks meanwhile gets the same: a crowd of scrapers costs the workers no more than one. */
function oneAtATime<Result>(make: () => Promise<Result>): () => Promise<Result> {
  let underway: Promise<Result> | undefined
  return () =>
    (underway ??= make().finally(() => {
      underway = undefined
    }))
}

/** The others hear of what a worker has caused once per turn of the event loop. */
function oncePerTurn(
  notify: (notices: readonly ClientNotice[]) => void,
): (notice: ClientNotice) => void {
  let waiting: ClientNotice[] = []
  return (told) => {
    if (waiting.push(told) > 1) return
    setImmediate(() => {
      notify(waiting)
      waiting = []
    })
  }
}
