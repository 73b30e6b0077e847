/** Builds the parts of the admin listener. */
import { hostname } from 'node:os'
import { shownBan } from '../../admin/ban-operations.ts'
import { createReadiness } from '../../admin/readiness.ts'
import type { AdminServerOptions } from '../../admin/server.ts'
import type { Ban } from '../../insight/api/state.ts'
import { createAdmittedToday } from '../../insight/live/admitted-today.ts'
import { overview } from '../../insight/live/overview.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { Gateway } from './gateway.ts'
import { createLiveExplainer } from './live-explainer.ts'
import { startNotifier } from './notifier.ts'
import { createStateParts } from './state-parts.ts'
import { readAdminTls } from './tls-files.ts'
import { recentIn, shedsOf, storeHealth, worstBackends, worstKeySetFault } from './worker-link.ts'

export function createAdminParts(gateway: Gateway): AdminServerOptions {
  const { reloads, log, live, usage, workers, whole, version } = gateway
  const { operatorBans: bans, stores } = workers
  const { unsavedSeconds, listening } = whole
  const store = () => storeHealth(workers.links)
  const shown = (key: string, ban: BanRecord): Ban => shownBan(reloads.config, key, ban)
  const standing = {
    store,
    unsavedSeconds,
    logFault: log.fault,
    backends: () => worstBackends(workers.links),
    reloads,
    listBans: async () => (await bans.list()).map(([key, ban]) => shown(key, ban)),
  }
  live.watch({ ...standing, bans, shown })
  startNotifier({ reloads, live, log, claims: stores.claims, counters: stores.counters })
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
    renderMetrics: () => workers.renderMetrics(),
    readiness: createReadiness({
      reloads,
      logFault: log.fault,
      listener: () => listenerState(gateway),
      store,
      unsaved: () => stores.embedded?.unsaved,
      keySetFault: () => worstKeySetFault(workers.links),
      sheds: () => shedsOf(workers.links),
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
