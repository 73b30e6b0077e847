/** The composition root: what there is once in a gateway, above the workers that serve, be it this process alone or several. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ConnectionOptions } from 'node:tls'
import { startAdminServer, type AdminServer } from '../../admin/server.ts'
import type { Config, ListenAddress } from '../../config/config.ts'
import { storeInWords } from '../../config/hosts.ts'
import type { Log } from '../../core/record/log.ts'
import { MetricRegistry } from '../../core/record/metric-registry.ts'
import { Live } from '../../insight/live/live.ts'
import { everySecond, type Second } from '../../insight/live/second.ts'
import { loadFetch } from '../../insight/notify/webhook.ts'
import { Counters } from '../../insight/usage/counters.ts'
import { UsageHistory } from '../../insight/usage/usage-history.ts'
import { createAddressCounter } from '../../state/memory/addresses.ts'
import { createAdminParts } from './admin-parts.ts'
import { Fleet } from './fleet.ts'
import { addGatewayMetrics } from './gateway-metrics.ts'
import { Reloader, type LoadConfig, type Prepared } from './reloader.ts'
import { readAdminTls } from './tls-files.ts'
import type { Workers } from './worker-link.ts'

export interface GatewayOptions {
  readonly version: string
  /** Drain closes it, and so does a listen that rejects. */
  readonly log: Log
  readonly load: LoadConfig
  /** For admin listeners of other gateways that have TLS. Default: the authorities that Node.js trusts. */
  readonly adminTls?: ConnectionOptions
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

/** The system calls that fail where an address cannot be had, in this process or in a worker. */
const LISTEN_CALLS: ReadonlySet<unknown> = new Set(['getaddrinfo', 'bind', 'listen'])

/** Time that workers have to report a second that is over. */
const WORKERS_LATE_MS = 250

/** How long connections without a request stay open at a stop; a client that receives "Connection: close" with its next answer loses nothing. */
const IDLE_AT_MOST_MS = 200

export class Gateway {
  readonly version: string
  readonly log: Log
  readonly reloads: Reloader
  readonly workers: Workers
  readonly fleet: Fleet
  readonly live = new Live()
  readonly usage: UsageHistory
  readonly counters: Counters
  /** The metrics of this process. */
  readonly registry = new MetricRegistry()
  /** Counts the requests without a valid credential, for all workers. */
  readonly addresses = createAddressCounter()
  /** The gateway has started, and is not about to end. Written by listen and drain. */
  isListening = false
  readonly #stopSeconds: () => void
  readonly #startAdmin: () => Promise<AdminServer>
  #admin: AdminServer | undefined

  constructor(
    config: Config,
    options: GatewayOptions,
    createWorkers: (gateway: Gateway) => Workers,
  ) {
    const { version, log, load, adminTls: tls = { rejectUnauthorized: true } } = options
    this.version = version
    this.log = log
    this.reloads = new Reloader({
      config,
      load,
      prepare: (next) => this.#prepare(next),
      log,
      look: (clients) => this.counters.look(clients),
    })
    addGatewayMetrics(this.registry, this)
    const workers = createWorkers(this)
    this.workers = workers
    this.counters = new Counters(workers.stores.counters)
    this.fleet = new Fleet(this, tls)
    this.usage = new UsageHistory({
      store: workers.stores.usage,
      onFault: log.usageNotKept,
      onRecovered: log.usageKept,
      onDropped: log.usageDropped,
    })
    const { live } = this
    const parts = createAdminParts(this)
    this.#startAdmin = () => startAdminServer(parts)
    this.#stopSeconds = everySecond((at) => live.close(at), WORKERS_LATE_MS)
  }

  /** Resolves with the real addresses once both listeners are up; rejects with ListenError when one cannot be had. */
  async listen(): Promise<{ listen: ListenAddress; admin: ListenAddress }> {
    try {
      await this.workers.ready()
      this.#admin = await this.#startAdmin().catch((error: unknown) => {
        throw new ListenError('admin', error)
      })
      this.fleet.start()
      // The admin listener is up already, so a reload may have changed the configuration. Behind this line come those of requests.
      const { revision, store, warnings } = this.reloads.config
      this.log.configTaken({ revision, store: storeInWords(store) })
      for (const problem of warnings) this.log.configWarning({ problem })
      const listen = await this.workers.listen().catch((error: NodeJS.ErrnoException) => {
        throw LISTEN_CALLS.has(error.syscall) ? new ListenError('public', error) : error
      })
      this.isListening = true
      const admin = this.#admin.address
      this.log.listening({ listener: 'public', ...listen })
      this.log.listening({ listener: 'admin', ...admin })
      return { listen, admin }
    } catch (error) {
      await this.#close()
      throw error
    }
  }

  /** Answers what is in flight within server.timeouts.drain, hands quota back and closes everything. Never rejects. */
  async drain(): Promise<void> {
    this.isListening = false
    this.reloads.close()
    const { drainDelayMs: delayMs, drainMs } = this.reloads.config.server.timeouts
    // The load balancer must have seen that this gateway is not ready before connections are refused.
    if (delayMs > 0) {
      this.log.drainDelayed({ delayMs })
      await sleep(delayMs)
    }
    await this.workers.drain({ idleMs: Math.min(IDLE_AT_MOST_MS, drainMs / 2) })
    await this.#close()
  }

  async #close(): Promise<void> {
    this.#stopSeconds()
    this.live.end()
    await this.fleet.close()
    await this.#admin?.close()
    await this.usage.close()
    await this.workers.close()
    await this.log.close()
  }

  /** Prepares a configuration for the workers and the admin listener, so that they take it together. */
  async #prepare(config: Config): Promise<Prepared> {
    if (config.notify !== undefined) loadFetch()
    const identity = readAdminTls(config.admin)
    const { commit, abort } = await this.workers.prepare(config)
    return {
      abort,
      commit: () => {
        commit()
        this.#admin?.use(identity, config.admin)
      },
    }
  }

  addSecond(second: Second): void {
    this.usage.add(second.rows)
    this.live.add(second)
  }

  get listeningWorkers(): number {
    return this.workers.links.filter(({ state }) => state === 'listening').length
  }

  get unsavedSeconds(): number {
    const { embedded } = this.workers.stores
    return Math.max(embedded?.unsaved?.seconds ?? 0, this.usage.unsavedSeconds)
  }
}
