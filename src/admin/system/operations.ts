/** Reports the state of backends, the store and the workers. */
import type { Backends, Store, Workers } from '../../insight/api/state.ts'
import type { BackendHealth } from '../../core/backends/health.ts'
import { storeStateOf } from '../../insight/live/changes.ts'
import type { Traffic } from '../../insight/live/seconds.ts'
import type { ProcessNow } from '../../insight/live/second.ts'
import type { StoreHealth, UnsavedCounters } from '../../state/contract.ts'
import { nameServers } from '../../state/redis/servers.ts'
import { iso, json, seen } from '../answers.ts'
import { look, type Operation } from '../operation.ts'

export interface WorkerState {
  readonly number: number
  readonly pid: number
  readonly state: 'starting' | 'listening' | 'draining' | 'ended'
  /** Unix time since which the worker takes requests. */
  readonly sinceMs: number | undefined
  readonly restarts: number
  /** undefined: the worker has not reported recently. */
  readonly now: ProcessNow | undefined
}

export interface StateNeeds {
  readonly state: {
    workers(): readonly WorkerState[]
    /** sinceMs: Unix time; undefined: since the gateway started. */
    backends(): readonly (BackendHealth & Traffic & { readonly sinceMs: number | undefined })[]
    store(): {
      readonly health: StoreHealth
      readonly unsaved: UnsavedCounters | undefined
      readonly sinceMs: number | undefined
      readonly outages: number
      readonly callP99Ms: number | null
    }
    requestsByRoute(): Promise<ReadonlyMap<string, number>>
  }
}

export const systemOperations: readonly Operation[] = [
  look('/api/backends', ({ state }) => {
    const backends = state.backends().map(({ name, state: how, fault, ...rest }) => ({
      name,
      state: fault === 'not checked yet' ? ('unknown' as const) : how,
      since: iso(rest.sinceMs),
      cause: fault ?? null,
      nextTry: how === 'up' ? null : iso(rest.nextTryAtMs),
      requestsPerSecond: rest.requestsPerSecond,
      p99Ms: rest.p99Ms,
      failuresPerSecond: rest.failuresPerSecond,
    }))
    return json(200, { ...seen('gateway'), backends } satisfies Backends)
  }),
  look('/api/store', ({ reloads, state }) => {
    const { redis, file, onOutage } = reloads.config.store
    const { health, unsaved, sinceMs, outages, callP99Ms } = state.store()
    const how = storeStateOf(health)
    return json(200, {
      ...seen('gateway'),
      kind: redis === undefined ? 'embedded' : 'redis',
      where: redis === undefined ? (file ?? null) : nameServers(redis),
      state: how,
      since: iso(sinceMs),
      cause: how === 'up' ? null : (health.refusal ?? health.cause ?? null),
      warning: unsaved?.warning ?? health.warning ?? null,
      onOutage,
      outages,
      callP99Ms,
      unsavedSeconds: unsaved?.seconds ?? 0,
    } satisfies Store)
  }),
  look('/api/workers', ({ reloads, state }) => {
    const all = state.workers()
    const silent = all.filter(({ state: how, now }) => how === 'listening' && now === undefined)
    const missing = silent.map(({ number }) => `worker ${number} has not said how it is`)
    const wanted = reloads.config.server.workers
    const workers = all.flatMap(shownWorker)
    return json(200, { ...seen('gateway', missing), wanted, workers } satisfies Workers)
  }),
]

/** Workers that have ended are left out. The numbers of one that has not reported recently are null. */
function shownWorker(worker: WorkerState): Workers['workers'] {
  const { number, pid, state, sinceMs, restarts, now } = worker
  if (state === 'ended') return []
  return [
    {
      number,
      pid,
      state,
      since: iso(sinceMs),
      restarts,
      inFlight: now?.inFlight ?? null,
      connections: now?.connections ?? null,
      loopLagMs: now === undefined ? null : Math.round(now.loopLagMs),
      rssBytes: now?.rssBytes ?? null,
    },
  ]
}
