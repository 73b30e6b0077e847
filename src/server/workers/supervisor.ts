/** The composition root of a gateway of several processes: workers take the requests, this process supervises them. */
import { startAdminServer, type AdminServer } from '../../admin/server.ts'
import { Balancer } from '../../core/backends/balancer.ts'
import { createBackendProbe, type BackendProbe } from '../../core/backends/probe.ts'
import { answerCalls } from '../../state/supervisor/calls.ts'
import type { Config } from '../../config/config.ts'
import { storeInWords } from '../../config/hosts.ts'
import { createAdminParts, withAdmin } from '../gateway/admin-parts.ts'
import { createBackends } from '../gateway/backends.ts'
import type { Gateway, GatewayOptions } from '../gateway/gateway.ts'
import { drainDelay } from '../gateway/drain-times.ts'
import type { Prepared, Reloadable } from '../gateway/reload.ts'
import { Reloader } from '../gateway/reloader.ts'
import { newGatewayId } from '../gateway/lasting-parts.ts'
import { ListenError } from '../gateway/listen-error.ts'
import { createUsageHistory, openStores } from '../gateway/stores.ts'
import { everySecond } from '../../insight/live/every-second.ts'
import { Live } from '../../insight/live/live.ts'
import { unpackSecond } from '../../insight/live/packed-second.ts'
import type { Second } from '../../insight/live/second.ts'
import { openListenSockets, type ListenSockets } from '../../core/http/bound-sockets.ts'
import type { ReloadOutcome, ReloadWish } from '../../config/changes/reload-outcome.ts'
import { keepDaily, newSecret } from '../../core/http/ticket-secret.ts'
import { createAdminSources } from './admin-sources.ts'
import type { OwnState } from '../../state/contract.ts'
import type { Counters } from '../../state/counters.ts'
import type { UsageHistory } from '../../insight/usage/usage-history.ts'
import { oneAtATime } from './one-at-a-time.ts'
import { oncePerTurn } from './once-per-turn.ts'
import { Questions } from './questions.ts'
import { createSharedState, type SharedState } from './shared-state.ts'
import { defaultWatchdog, type WatchdogOptions } from './watchdog.ts'
import { WorkerPool } from './worker-pool.ts'
import { WorkerFailed } from './worker-exit.ts'
import { WorkerProcess } from './worker-process.ts'

/** Time that workers have to report a second that is over. */
const WORKERS_LATE_MS = 250

export interface SupervisorOptions extends GatewayOptions {
  /** The file that a worker runs. */
  readonly entry: string
  readonly watchdog?: WatchdogOptions
}

export const createSupervisor = (config: Config, options: SupervisorOptions): Supervisor =>
  new Supervisor(config, options)

export class Supervisor implements Gateway, Reloadable {
  readonly #options: SupervisorOptions
  /** The supervisor has a Redis connection of its own: what operators ask and do does not wait for a worker. */
  readonly #stores: OwnState
  readonly #state: SharedState
  readonly #reloader: Reloader
  /** Used where no worker has reported the state of the backends. Written by prepare. */
  #probe: BackendProbe
  readonly #live = new Live()
  readonly #questions = new Questions()
  readonly #usage: UsageHistory
  readonly #stopSeconds = everySecond((at) => this.#live.close(at), WORKERS_LATE_MS)
  /** Both written by listen. */
  #admin: AdminServer | undefined
  #pool: WorkerPool | undefined
  /** Written by listen and drain. */
  #isListening = false

  constructor(config: Config, options: SupervisorOptions) {
    this.#options = options
    const { log, load } = options
    this.#live.events.onDecisionsWanted((isWanted) =>
      this.#pool?.notifyAll({ kind: 'listen', isWanted }),
    )
    const target = withAdmin(this, () => this.#admin)
    const look: Counters['look'] = (clients) => this.#stores.counters.look(clients)
    this.#reloader = new Reloader({ config, load, target, log, look })
    this.#probe = createProbe(config)
    this.#stores = openStores({ config, log })
    this.#usage = createUsageHistory(this.#stores.usage, log)
    this.#stores.embedded?.onNotice?.((client, notice) =>
      this.#pool?.notifyAll({ kind: 'quota', notices: [{ client, notice }] }),
    )
    this.#state = createSharedState({
      config,
      embedded: this.#stores.embedded,
      banStore: this.#stores.bans,
      clock: this.#stores.clock,
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
      // The admin API may have asked for another one since.
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
        // Where backends are checked the workers soon report their state; until then it is as before.
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
    this.#stopSeconds()
    this.#live.end()
    await this.#admin?.close()
    await this.#usage.close()
    await this.#state.close()
    await this.#stores.close()
    await this.#options.log.close()
  }

  #startAdmin(): Promise<AdminServer> {
    const sources = createAdminSources({
      reloads: this.#reloader,
      log: this.#options.log,
      live: this.#live,
      questions: this.#questions,
      version: this.#options.version,
      usage: this.#usage,
      pool: () => this.#pool,
      state: this.#state,
      counters: this.#stores.counters,
      claims: this.#stores.claims,
      settingLocations: this.#options.settingLocations,
      probe: (seen) => this.#probe(seen),
      isListening: () => this.#isListening,
    })
    return startAdminServer(createAdminParts(sources))
  }

  /** Handles a worker that takes requests. */
  #onListening(worker: WorkerProcess): void {
    this.#questions.add(worker)
    if (this.#live.events.isWanted('decision')) worker.notify({ kind: 'listen', isWanted: true })
  }

  #addSecond(second: Second): void {
    this.#usage.add(second.rows)
    this.#live.add(second)
  }

  #createPool(sockets: ListenSockets): WorkerPool {
    const { entry, version, watchdog = defaultWatchdog } = this.#options
    const config = (): Config => this.#reloader.config
    const daily = keepDaily(newSecret(Date.now()))
    const gatewayId = newGatewayId()
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
          start: { number, version, config: config(), ticketSecret: daily.today(), gatewayId },
          listenFd,
          onLines: (lines) => this.#options.log.relay(lines),
          onMessage: (message, send) => {
            if (message.kind === 'calls') answerCalls(handlers, message, send)
            else if (message.kind === 'answers') this.#questions.receive(worker, message)
            else if (message.kind === 'second') {
              worker.now = { ...message.now, receivedMs: performance.now() }
              this.#addSecond(unpackSecond(message.second))
            } else this.#live.events.decisions(message.decisions, message.untold)
          },
        })
        worker.listening.then(
          () => this.#onListening(worker),
          () => undefined,
        )
        return worker
      },
      log: (line) => this.#options.log.supervision(line),
    })
  }
}

/** Requests are the workers'; this probe only finds out whether connections can be made. */
function createProbe({ upstream }: Config): BackendProbe {
  return createBackendProbe(new Balancer(createBackends(upstream), upstream), upstream)
}

const refuse = (listener: 'public' | 'admin') => (error: unknown) => {
  throw new ListenError(listener, error)
}

/** Turns a worker's fault at the public listener into one of this process; returns any other fault as it is. */
function asListenError(error: unknown): unknown {
  const { fault } = error instanceof WorkerFailed ? error.exit : {}
  if (fault?.isListener)
    return new ListenError('public', Object.assign(new Error(fault.message), { code: fault.code }))
  const isBind = (error as NodeJS.ErrnoException).syscall === 'bind'
  return isBind ? new ListenError('public', error) : error
}
