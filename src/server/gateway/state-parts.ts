/** State of routes, backends, the store and the workers, and since when it holds. */
import type { StateNeeds } from '../../admin/state-operations.ts'
import type { BackendHealth } from '../../core/backends/health.ts'
import type { AdminSources } from './admin-parts.ts'
import { storeHealth, worstBackends } from './worker-link.ts'

const NO_FAULT = { state: 'up', fault: undefined, since: undefined, isUsable: true } as const

export function createStateParts({ live, reloads, workers }: AdminSources): StateNeeds['state'] {
  /** Workers report backends that are not well, or were not. */
  const backends = (): BackendHealth[] => {
    const known = new Map(worstBackends(workers.links).map((health) => [health.name, health]))
    return reloads.config.upstream.urls.map((name) => known.get(name) ?? { name, ...NO_FAULT })
  }
  return {
    workers: () => workers.processes,
    backends: () =>
      backends().map((health) => ({
        ...health,
        ...live.seconds.backend(health.name),
        sinceMs: live.changes.backendSinceMs(health.name),
      })),
    store: () => ({
      health: storeHealth(workers.links),
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
