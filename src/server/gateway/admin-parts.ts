/** Builds the parts of the admin listener. */
import { hostname } from 'node:os'
import { shownBan } from '../../admin/bans/operations.ts'
import { createReadiness } from '../../admin/readiness.ts'
import type { AdminServerOptions } from '../../admin/server.ts'
import type { StateNeeds } from '../../admin/system/operations.ts'
import type { BackendHealth } from '../../core/backends/health.ts'
import { renderSnapshots } from '../../core/record/metric-registry.ts'
import type { Ban } from '../../insight/api/state.ts'
import { createAdmittedToday } from '../../insight/live/admitted-today.ts'
import { overview } from '../../insight/live/overview.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { Gateway } from './gateway.ts'
import { createLiveExplainer } from './live-explainer.ts'
import { startNotifier } from './notifier.ts'
import { readAdminTls } from './tls-files.ts'
import { recentIn, seenBy } from './worker-link.ts'

export function createAdminParts(gateway: Gateway): AdminServerOptions {
  const { reloads, log, live, usage, workers, whole, version } = gateway
  const { operatorBans: bans, stores } = workers
  const { unsavedSeconds, listening } = whole
  const store = () => seenBy(workers.links).store
  const logFault = () => log.fault() ?? seenBy(workers.links).logFault
  const shown = (key: string, ban: BanRecord): Ban => shownBan(reloads.config, key, ban)
  const standing = {
    store,
    unsavedSeconds,
    logFault,
    backends: () => seenBy(workers.links).backends,
    reloads,
    listBans: async () => (await bans.list()).map(([key, ban]) => shown(key, ban)),
  }
  live.watch({ ...standing, bans, shown })
  startNotifier(gateway)
  const admittedToday = createAdmittedToday((day) => usage.day(day))
  const count = () => ({ listening: listening(), wanted: reloads.config.server.workers })
  return {
    listen: reloads.config.admin.listen,
    identity: readAdminTls(reloads.config.admin),
    reloads,
    bans,
    counters: stores.counters,
    live,
    overview: () =>
      overview({ ...standing, live, version, workers: count, admittedToday, gateway: hostname() }),
    recentRequests: (query) => recentIn(workers.links, query),
    explain: createLiveExplainer(gateway),
    usage,
    state: createStateParts(gateway),
    audit: log.audit,
    auditRefused: log.auditRefused,
    renderMetrics: async () => renderSnapshots(await workers.measure()),
    readiness: createReadiness({
      reloads,
      logFault,
      listener: () => listenerState(gateway),
      store,
      unsaved: () => stores.embedded?.unsaved,
      keySetFault: () => seenBy(workers.links).keySetFault,
      sheds: () => seenBy(workers.links).sheds,
      backends: () => workers.probeBackends(),
    }),
    onError: (error) => log.adminFailed(error),
  }
}

/** The gateway is ready as long as one of its workers is. */
function listenerState({ isListening, whole, reloads }: Gateway) {
  if (!isListening) return { ok: false, reason: 'starting or draining' }
  const wanted = reloads.config.server.workers
  const listening = whole.listening()
  return { ok: listening > 0, reason: wanted === 1 ? 'up' : `${listening} of ${wanted} workers` }
}

const NO_FAULT = { state: 'up', fault: undefined, since: undefined, isUsable: true } as const

/** State of routes, backends, the store and the workers, and since when it holds. */
function createStateParts({ live, reloads, workers }: Gateway): StateNeeds['state'] {
  /** Workers report backends that are not well, or were not. */
  const backends = (): BackendHealth[] => {
    const known = new Map(seenBy(workers.links).backends.map((health) => [health.name, health]))
    return reloads.config.upstream.urls.map((name) => known.get(name) ?? { name, ...NO_FAULT })
  }
  return {
    workers: () => workers.processes,
    backends: () =>
      backends().map((health) => ({
        ...health,
        ...live.seconds.backend(health.name),
        // The last look was up to a second ago, and may not know of a fault that is shown.
        sinceMs:
          health.since === undefined
            ? live.changes.backendSinceMs(health.name)
            : Date.parse(health.since),
      })),
    store: () => ({
      health: seenBy(workers.links).store,
      unsaved: workers.stores.embedded?.unsaved,
      sinceMs: live.changes.store?.sinceMs,
      outages: live.changes.storeOutages,
      callP99Ms: live.seconds.storeP99Ms,
    }),
    async requestsByRoute() {
      const counts = new Map<string, number>()
      for (const { name, values } of (await workers.measure()).flat())
        if (name === 'tollgate_requests_total')
          for (const { labels, value } of values) {
            const route = String(labels['route'])
            counts.set(route, (counts.get(route) ?? 0) + value)
          }
      return counts
    },
  }
}
