/** The composition root of a gateway of one process; src/server/workers/ has those of several. */
import { startAdminServer, type AdminServer } from '../../admin/server.ts'
import type { ReadSettingLocations } from '../../config/clients/aside.ts'
import { createAddressCounter } from '../../state/memory/addresses.ts'
import type { KeySetFault } from '../../core/credentials/jwt-verifier.ts'
import type { Log } from '../../core/record/log.ts'
import { createMetrics, type Metrics } from '../../core/record/metrics.ts'
import type { Config, ListenAddress } from '../../config/config.ts'
import { storeInWords } from '../../config/hosts.ts'
import { drainDelay, stopIdleMs } from './drain-times.ts'
import { Live, sampleSeconds } from '../../insight/live/live.ts'
import type { RecentDecisions } from '../../core/record/recent.ts'
import { ListenError } from './listen-error.ts'
import type { WorkerState } from '../../admin/state-operations.ts'
import { healthOf } from '../../core/backends/health.ts'
import type { ProcessNow, Second } from '../../insight/live/second.ts'
import { createAdminParts, withAdmin, type AdminSources } from './admin-parts.ts'
import type { ReloadWish } from '../../config/changes/reload-outcome.ts'
import { Reloader, type LoadConfig } from './reloader.ts'
import { configNames, createServing } from './serving.ts'
import { createUsageHistory, openStores } from './stores.ts'
import type { Counters } from '../../state/counters.ts'
import type { UsageHistory } from '../../insight/usage/usage-history.ts'

/**
 * listen resolves with the real addresses once both listeners are up; rejects with ListenError when one cannot be had.
 * drain answers what is in flight within server.timeouts.drain, hands quota back and closes everything. Never rejects.
 */
export type Gateway = ReturnType<typeof createGateway>

export interface GatewayOptions {
  readonly version: string
  /** Drain closes it, and so does a listen that rejects. */
  readonly log: Log
  /** Loads the configuration for a reload. */
  readonly load: LoadConfig
  /** Finds settings for explanations. Left out: they do not say where a setting stands. */
  readonly settingLocations?: ReadSettingLocations
}

export function createGateway(config: Config, options: GatewayOptions) {
  const { log } = options
  const { serving, reloader, startAdmin, usage, lastSecond } = createParts(config, options, {
    isListening: () => listening,
    admin: () => admin,
  })
  let admin: AdminServer | undefined
  let listening = false
  const close = async (): Promise<void> => {
    lastSecond()
    await admin?.close()
    await usage.close()
    await serving.close()
    await log.close()
  }
  return {
    async listen(): Promise<{ listen: ListenAddress; admin: ListenAddress }> {
      const abandon = (listener?: 'public' | 'admin') => async (error: unknown) => {
        await close()
        throw listener === undefined ? error : new ListenError(listener, error)
      }
      await serving.ready().catch(abandon())
      admin = await startAdmin().catch(abandon('admin'))
      const listen = await serving.listen().catch(abandon('public'))
      listening = true
      logConfig(log, reloader.config)
      log.listening({ listener: 'public', ...listen })
      log.listening({ listener: 'admin', ...admin.address })
      return { listen, admin: admin.address }
    },
    /** Configuration in force. */
    config: () => reloader.config,
    reload: (wish?: ReloadWish) => reloader.reload(wish),
    async drain(): Promise<void> {
      listening = false
      reloader.close()
      const { timeouts } = reloader.config.server
      await drainDelay(log, timeouts)
      await serving.drain({ idleMs: stopIdleMs(timeouts.drainMs) })
      await close()
    },
  }
}

function createParts(
  config: Config,
  { version, log, load, settingLocations }: GatewayOptions,
  { isListening, admin }: { isListening(): boolean; admin(): AdminServer | undefined },
) {
  const metrics = createMetrics({ version, ...configNames(config) })
  const stores = openStores({ config, log, metrics })
  const { embedded } = stores
  const addresses = createAddressCounter()
  let keySetFault: KeySetFault | undefined
  const serving = createServing({
    version,
    config,
    log,
    metrics,
    stores,
    addresses,
    onKeySet: (fault) => (keySetFault = fault),
  })
  const look: Counters['look'] = (clients) => stores.counters.look(clients)
  const reloader = new Reloader({ config, load, target: withAdmin(serving, admin), log, look })
  const live = new Live()
  const usage = createUsageHistory(stores.usage, log)
  watch(metrics, { reloader, live, usage, recent: serving.recent })
  const sources: AdminSources = {
    reloads: reloader,
    live,
    usage,
    version,
    log,
    workers: () => ({ listening: isListening() ? 1 : 0, wanted: 1 }),
    backendHealth: () => serving.balancer.backends.map(healthOf),
    anonymousRequests: (address) => addresses.add({ address, points: 0 }).total,
    standings: async (caller) => ({ answers: [serving.standing(caller)], missing: [] }),
    readToken: serving.readToken,
    recentRequests: async (query) => ({ requests: serving.recent.find(query), missing: [] }),
    bans: serving.operatorBans,
    counters: stores.counters,
    renderMetrics: () => {
      metrics.bannedKeys(serving.bannedKeys)
      metrics.countersUnsaved(Math.max(embedded?.unsaved?.seconds ?? 0, usage.unsavedSeconds))
      return metrics.render()
    },
    measure: async () => [await metrics.snapshot()],
    claims: stores.claims,
    settingLocations,
    processes: () => [alone(live.startedAtMs, serving.now())],
    readiness: {
      listener: () => listenerState(isListening()),
      store: () => stores.health,
      unsaved: () => embedded?.unsaved,
      keySetFault: () => keySetFault,
      sheds: () => [serving.load.shed],
      backends: () => serving.probeBackends(),
    },
  }
  const startAdmin = startAdminServer.bind(undefined, createAdminParts(sources))
  const lastSecond = sampleSeconds(noted(serving.takeSecond, usage), live)
  return { serving, reloader, startAdmin, usage, lastSecond }
}

function watch(
  metrics: Metrics,
  {
    reloader,
    live,
    usage,
    recent,
  }: { reloader: Reloader; live: Live; usage: UsageHistory; recent: RecentDecisions },
): void {
  live.events.onDecisionsWanted((isWanted) =>
    recent.listen(isWanted ? live.events.decisions : undefined),
  )
  metrics.watchReloads(reloader)
  metrics.watchTopClients(() => live.top.busiest(reloader.config.admin.topClients))
  metrics.watchUsage(() => usage.dropped)
  metrics.watchDeprecated(() => live.deprecated.clientsByRoute())
}

/** Adds every second to the usage history, too. */
const noted =
  (take: (at: number) => Second, usage: UsageHistory) =>
  (at: number): Second => {
    const second = take(at)
    usage.add(second.rows)
    return second
  }

const listenerState = (ok: boolean) => ({ ok, reason: ok ? 'up' : 'starting or draining' })

/** This process in the form of a worker. */
const alone = (sinceMs: number, now: ProcessNow): WorkerState => ({
  number: 1,
  pid: now.pid,
  state: 'listening',
  sinceMs,
  restarts: 0,
  now,
})

function logConfig(log: Log, { revision, store, warnings }: Config): void {
  log.configTaken({ revision, store: storeInWords(store) })
  for (const problem of warnings) log.configWarning({ problem })
}
