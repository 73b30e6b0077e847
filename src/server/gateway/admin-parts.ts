/** Builds the parts of the admin listener. */
import { hostname } from 'node:os'
import { shownBan } from '../../admin/bans/operations.ts'
import type { GatewayState } from '../../admin/operation.ts'
import { readiness } from '../../admin/readiness.ts'
import type { AdminServerOptions } from '../../admin/server.ts'
import { renderSnapshots } from '../../core/record/metric-registry.ts'
import type { Ban } from '../../insight/api/live.ts'
import { createAdmittedToday, overview } from '../../insight/live/overview.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { Gateway } from './gateway.ts'
import { createLiveExplainer } from './live-explainer.ts'
import { startNotifier } from './notifier.ts'
import { readAdminTls } from './tls-files.ts'
import { recentIn, seenBy } from './worker-link.ts'

export function createAdminParts(gateway: Gateway): AdminServerOptions {
  const { reloads, log, live, usage, counters, workers, version } = gateway
  const { operatorBans: bans } = workers
  const shown = (key: string, ban: BanRecord): Ban => shownBan(reloads.config, key, ban)
  const listBans = async () => (await bans.list()).map(([key, ban]) => shown(key, ban))
  const state = stateOf(gateway)
  live.watch({ ...state, reloads, bans, shown })
  startNotifier(gateway)
  const admittedToday = createAdmittedToday((day) => usage.day(day))
  const count = () => ({
    listening: gateway.listeningWorkers,
    wanted: reloads.config.server.workers,
  })
  const unsavedSeconds = () => gateway.unsavedSeconds
  const parts = { live, reloads, unsavedSeconds, listBans, version, admittedToday }
  return {
    listen: reloads.config.admin.listen,
    identity: readAdminTls(reloads.config.admin),
    reloads,
    bans,
    counters,
    live,
    fleet: gateway.fleet,
    overview: () => overview({ ...state, ...parts, workers: count, gateway: hostname() }),
    recentRequests: (query) => recentIn(workers.links, query),
    explain: createLiveExplainer(gateway),
    usage,
    state,
    log,
    renderMetrics: async () => renderSnapshots(await workers.measure()),
    readiness: () => readiness(reloads, state),
  }
}

const stateOf = (gateway: Gateway): GatewayState => {
  const { workers, log } = gateway
  const seen = () => seenBy(workers.links)
  return {
    workers: () => workers.links,
    backends: () => seen().backends,
    probe: () => workers.probeBackends(),
    store: () => seen().store,
    unsaved: () => workers.stores.embedded?.unsaved,
    listener: () => listenerState(gateway),
    logFault: () => log.fault() ?? seen().logFault,
    keySetFault: () => seen().keySetFault,
    sheds: () => seen().sheds,
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

/** The gateway is ready as long as one of its workers is. */
function listenerState({ isListening, listeningWorkers, reloads }: Gateway) {
  if (!isListening) return { ok: false, reason: 'starting or draining' }
  const wanted = reloads.config.server.workers
  const reason = wanted === 1 ? 'up' : `${listeningWorkers} of ${wanted} workers`
  return { ok: listeningWorkers > 0, reason }
}
