/** The composition root: what there is once in a gateway, above the workers that serve, be it this process alone or several. */
import { setTimeout as sleep } from 'node:timers/promises'
import { startAdminServer, type AdminServer } from '../../admin/server.ts'
import type { ReloadOutcome, ReloadWish } from '../../config/changes/reload-outcome.ts'
import type { ReadSettingLocations } from '../../config/clients/aside.ts'
import type { Config, ListenAddress } from '../../config/config.ts'
import { storeInWords } from '../../config/hosts.ts'
import type { Log } from '../../core/record/log.ts'
import type { WholeGateway } from '../../core/record/whole-families.ts'
import { Live } from '../../insight/live/live.ts'
import { everySecond, type Second } from '../../insight/live/second.ts'
import type { UsageHistory } from '../../insight/usage/usage-history.ts'
import { createAddressCounter } from '../../state/memory/addresses.ts'
import { createAdminParts } from './admin-parts.ts'
import { Reloader, type LoadConfig, type Prepared } from './reloader.ts'
import { createUsageHistory } from './stores.ts'
import { readAdminTls } from './tls-files.ts'
import type { Workers, WorkersParts } from './worker-link.ts'

export interface GatewayOptions {
  readonly version: string
  /** Drain closes it, and so does a listen that rejects. */
  readonly log: Log
  /** Loads the configuration for a reload. */
  readonly load: LoadConfig
  /** Finds settings for explanations. Left out: they do not say where a setting stands. */
  readonly settingLocations?: ReadSettingLocations
}

/** Error of a listener that cannot be opened; `cause` is Node's error. */
export class ListenError extends Error {
  override readonly name = 'ListenError'
  readonly listener: 'public' | 'admin'

  constructor(listener: 'public' | 'admin', cause: unknown) {
    super(`the ${listener} listener cannot be had`, { cause })
    this.listener = listener
  }
}

/** How long connections without a request stay open at a stop; a client that receives "Connection: close" with its next answer loses nothing. */
const IDLE_AT_MOST_MS = 200

export class Gateway {
  readonly #log: Log
  readonly #reloader: Reloader
  readonly #workers: Workers
  readonly #live = new Live()
  readonly #usage: UsageHistory
  readonly #stopSeconds: () => void
  readonly #startAdmin: () => Promise<AdminServer>
  /** Written by listen, as is the next. */
  #admin: AdminServer | undefined
  /** Written by drain, too. */
  #isListening = false

  constructor(
    config: Config,
    options: GatewayOptions,
    createWorkers: (parts: WorkersParts) => Workers,
  ) {
    const { version, log, load, settingLocations } = options
    const live = this.#live
    const addresses = createAddressCounter()
    const whole = this.#whole()
    const workers = createWorkers({
      config: () => this.#reloader.config,
      whole,
      usageDropped: () => this.#usage.dropped,
      addresses,
      onSecond: (second) => this.#addSecond(second),
      onDecisions: live.events.decisions,
    })
    const { stores } = workers
    this.#log = log
    this.#workers = workers
    this.#usage = createUsageHistory(stores.usage, log)
    this.#reloader = new Reloader({
      config,
      load,
      target: { prepare: (next) => this.#prepare(next) },
      log,
      look: (clients) => stores.counters.look(clients),
    })
    live.events.onDecisionsWanted((isWanted) => workers.listenToDecisions(isWanted))
    const parts = createAdminParts({
      version,
      log,
      live,
      usage: this.#usage,
      reloads: this.#reloader,
      workers,
      whole,
      addresses,
      settingLocations,
      isListening: () => this.#isListening,
    })
    this.#startAdmin = () => startAdminServer(parts)
    this.#stopSeconds = everySecond((at) => {
      workers.sample?.(at)
      live.close(at)
    }, workers.reportsLateMs)
  }

  /** Resolves with the real addresses once both listeners are up; rejects with ListenError when one cannot be had. */
  async listen(): Promise<{ listen: ListenAddress; admin: ListenAddress }> {
    try {
      await this.#workers.ready()
      this.#admin = await this.#startAdmin().catch((error: unknown) => {
        throw new ListenError('admin', error)
      })
      const listen = await this.#workers.listen()
      this.#isListening = true
      const admin = this.#admin.address
      // The admin API may have asked for another one since.
      const { revision, store, warnings } = this.config()
      this.#log.configTaken({ revision, store: storeInWords(store) })
      for (const problem of warnings) this.#log.configWarning({ problem })
      this.#log.listening({ listener: 'public', ...listen })
      this.#log.listening({ listener: 'admin', ...admin })
      return { listen, admin }
    } catch (error) {
      await this.#close()
      throw error
    }
  }

  /** Configuration in force. */
  config(): Config {
    return this.#reloader.config
  }

  reload(wish?: ReloadWish): Promise<ReloadOutcome> {
    return this.#reloader.reload(wish)
  }

  /** Answers what is in flight within server.timeouts.drain, hands quota back and closes everything. Never rejects. */
  async drain(): Promise<void> {
    this.#isListening = false
    this.#reloader.close()
    const { drainDelayMs: delayMs, drainMs } = this.config().server.timeouts
    // The load balancer must have seen that this gateway is not ready before connections are refused.
    if (delayMs > 0) {
      this.#log.drainDelayed({ delayMs })
      await sleep(delayMs)
    }
    await this.#workers.drain({ idleMs: Math.min(IDLE_AT_MOST_MS, drainMs / 2) })
    await this.#close()
  }

  async #close(): Promise<void> {
    this.#stopSeconds()
    this.#workers.sample?.(Math.floor(Date.now() / 1000))
    this.#live.end()
    await this.#admin?.close()
    await this.#usage.close()
    await this.#workers.close()
    await this.#log.close()
  }

  /** Takes a configuration's changes to the admin listener together with the rest of it. */
  async #prepare(config: Config): Promise<Prepared> {
    const identity = readAdminTls(config.admin)
    const { commit, ...prepared } = await this.#workers.prepare(config)
    return {
      ...prepared,
      commit: () => {
        commit()
        this.#admin?.use(identity, config.admin)
      },
    }
  }

  #addSecond(second: Second): void {
    this.#usage.add(second.rows)
    this.#live.add(second)
  }

  #whole(): WholeGateway {
    return {
      listening: () => this.#workers.links.filter(({ state }) => state === 'listening').length,
      restarts: () => this.#workers.restarts,
      unsavedSeconds: () =>
        Math.max(this.#workers.stores.embedded?.unsaved?.seconds ?? 0, this.#usage.unsavedSeconds),
      reloads: () => this.#reloader,
      topClients: () => this.#live.top.busiest(this.config().admin.topClients),
      deprecatedCallers: () => this.#live.deprecated.clientsByRoute(),
    }
  }
}
