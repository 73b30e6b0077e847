/** Reports the state of backends, the store and the workers. */
import type { Backends, Store, Workers } from '../../insight/api/state.ts'
import { storeStateOf } from '../../insight/live/changes.ts'
import { nameServers } from '../../config/hosts.ts'
import { iso, json, seen } from '../answers.ts'
import { look, type Operation, type WorkerState } from '../operation.ts'

/** A backend that no worker has reported. */
const WELL = { state: 'up', fault: undefined, since: undefined, nextTryAtMs: undefined } as const

export const systemOperations: readonly Operation[] = [
  look('/api/backends', ({ state, live, reloads }) => {
    const known = new Map(state.backends().map((health) => [health.name, health]))
    const backends = reloads.config.upstream.urls.map((name) => {
      const { state: how, fault, since, nextTryAtMs } = known.get(name) ?? WELL
      return {
        name,
        state: fault === 'not checked yet' ? ('unknown' as const) : how,
        // The last look was up to a second ago, and may not know of a fault that is shown.
        since: since ?? iso(live.changes.backendSinceMs(name)),
        cause: fault ?? null,
        nextTry: how === 'up' ? null : iso(nextTryAtMs),
        ...live.seconds.backend(name),
      }
    })
    return json(200, { ...seen('gateway'), backends } satisfies Backends)
  }),
  look('/api/store', ({ reloads, state, live }) => {
    const { redis, file, onOutage } = reloads.config.store
    const [health, unsaved] = [state.store(), state.unsaved()]
    const how = storeStateOf(health)
    return json(200, {
      ...seen('gateway'),
      kind: redis === undefined ? 'embedded' : 'redis',
      where: redis === undefined ? (file ?? null) : nameServers(redis),
      state: how,
      since: iso(live.changes.store?.sinceMs),
      cause: how === 'up' ? null : (health.refusal ?? health.cause ?? null),
      warning: unsaved?.warning ?? health.warning ?? null,
      onOutage,
      outages: live.changes.storeOutages,
      callP99Ms: live.seconds.storeP99Ms,
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
      pid: pid ?? 0,
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
