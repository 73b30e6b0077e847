/** Reports the state of backends, the store and the workers. */
import { storeStateOf } from '../../insight/live/changes.ts'
import type { Whole } from '../../insight/api/live.ts'
import { summed } from '../../insight/live/sums.ts'
import { iso, seen } from '../answers.ts'
import { look, lookAtAll, type ApiNeeds, type Operation, type WorkerState } from '../operation.ts'

export const systemOperations: readonly Operation[] = [
  lookAtAll('/api/backends', backendsOf, mergeBackends),
  look('/api/store', storeOf),
  look('/api/workers', workersOf),
]

/** A backend that no worker has reported. */
const WELL = { state: 'up', fault: undefined, since: undefined, nextTryAtMs: undefined } as const

export type Backends = Whole<BackendsPart>
type BackendsPart = ReturnType<typeof backendsOf>

function backendsOf({ state, live, reloads }: ApiNeeds) {
  const known = new Map(state.backends().map((health) => [health.name, health]))
  const backends = reloads.config.upstream.urls.map((name) => {
    const { state: how, fault, since, nextTryAtMs } = known.get(name) ?? WELL
    return {
      name,
      state: fault === 'not checked yet' ? ('unknown' as const) : how,
      /** null: since the gateway started. The last look was up to a second ago, and may not know of a fault that is shown. */
      since: since ?? iso(live.changes.backendSinceMs(name)),
      cause: fault ?? null,
      /** Time of the next try; null: it is up. */
      nextTry: how === 'up' ? null : iso(nextTryAtMs),
      /** Rates and latency are those of the last ten seconds. */
      ...live.seconds.backend(name),
    }
  })
  return { ...seen('gateway'), backends }
}

/** One that is down rests, or is asked all the same; one that is ejected gets no requests. */
const severity = { up: 0, unknown: 1, down: 2, ejected: 3 }

/** Rates add up; all else is of the gateway to which the backend looks worst, which the cause names. */
function mergeBackends(parts: readonly BackendsPart[], names: readonly string[]) {
  const rows = parts.flatMap(({ backends }, at) =>
    backends.map((row) => ({
      ...row,
      cause: parts.length > 1 && row.cause ? `${row.cause} (seen by ${names[at]})` : row.cause,
    })),
  )
  const backends = summed(rows, ['name'], ([one, other]) => {
    const isWorse = severity[other.state] > severity[one.state]
    const { state, since, cause, nextTry } = isWorse ? other : one
    return {
      state,
      since,
      cause,
      nextTry,
      p99Ms: Math.max(one.p99Ms ?? 0, other.p99Ms ?? 0) || null,
    }
  })
  return { ...parts[0], backends }
}

export type Store = ReturnType<typeof storeOf>

function storeOf({ reloads, state, live }: ApiNeeds) {
  const { store } = reloads.config
  const { shared } = store
  const [health, unsaved] = [state.store(), state.unsaved()]
  const how = storeStateOf(health)
  return {
    ...seen('gateway'),
    kind: shared?.setting ?? 'embedded',
    /** Servers, or the file; null: in memory alone. */
    where: shared?.servers ?? store.file ?? null,
    state: how,
    since: iso(live.changes.store?.sinceMs),
    cause: how === 'up' ? null : (health.refusal ?? health.cause ?? null),
    warning: unsaved?.warning ?? health.warning ?? null,
    onOutage: store.onOutage,
    outages: live.changes.storeOutages,
    /** p99 of calls in the last ten seconds. */
    callP99Ms: live.seconds.storeP99Ms,
    /** Seconds for which the embedded store's counters or the history could not be saved. */
    unsavedSeconds: unsaved?.seconds ?? 0,
  }
}

export type Workers = ReturnType<typeof workersOf>

function workersOf({ reloads, state }: ApiNeeds) {
  const all = state.workers()
  const silent = all.filter(({ state: how, now }) => how === 'listening' && now === undefined)
  const missing = silent.map(({ number }) => `worker ${number} has not said how it is`)
  const wanted = reloads.config.server.workers
  return { ...seen('gateway', missing), wanted, workers: all.flatMap(shownWorker) }
}

/** Workers that have ended are left out. The numbers of one that has not reported recently are null. */
function shownWorker({ number, pid, state, sinceMs, restarts, now }: WorkerState) {
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
