/** Sources of a supervisor's admin listener, which it gets by asking its workers. */
import { embeddedHealth } from '../../state/contract.ts'
import { worstOf } from '../../core/backends/health.ts'
import type { BackendProbe } from '../../core/backends/probe.ts'
import type { AdminSources } from '../gateway/admin-parts.ts'
import { createSupervisorMetrics, renderSnapshots } from '../../core/record/metrics.ts'
import { oneAtATime } from './one-at-a-time.ts'
import type { Questions } from './questions.ts'
import type { SharedState } from './shared-state.ts'
import type { WorkerPool } from './worker-pool.ts'

interface SupervisorParts extends Pick<
  AdminSources,
  'reloads' | 'log' | 'live' | 'usage' | 'version' | 'counters' | 'claims' | 'settingLocations'
> {
  /** undefined: there are no workers yet. */
  pool(): WorkerPool | undefined
  readonly state: SharedState
  readonly questions: Questions
  readonly probe: BackendProbe
  isListening(): boolean
}

export function createAdminSources(parts: SupervisorParts): AdminSources {
  const { reloads, log, live, usage, version, questions, pool, state } = parts
  const metrics = createMetricsOf(parts)
  return {
    reloads,
    log,
    live,
    version,
    workers: () => ({
      listening: pool()?.listening ?? 0,
      wanted: reloads.config.server.workers,
    }),
    backendHealth: () => worstOf(pool()?.backends ?? []),
    anonymousRequests: (address) => state.anonymousRequests(address),
    standings: (caller) => questions.standings(caller),
    readToken: (token) => questions.readToken(token),
    recentRequests: (query) => questions.recent(query),
    bans: state.operatorBans,
    usage,
    counters: parts.counters,
    renderMetrics: oneAtATime(async () => {
      const ofWorkers = (await pool()?.measure()) ?? []
      return renderSnapshots([...ofWorkers, await metrics.snapshot()])
    }),
    measure: async () => (await pool()?.measure()) ?? [],
    claims: parts.claims,
    settingLocations: parts.settingLocations,
    processes: () => pool()?.processes ?? [],
    readiness: {
      listener: () => {
        if (!parts.isListening()) return { ok: false, reason: 'starting or draining' }
        const listening = pool()?.listening ?? 0
        const reason = `${listening} of ${reloads.config.server.workers} workers`
        return { ok: listening > 0, reason }
      },
      store: () => pool()?.store ?? embeddedHealth,
      unsaved: () => state.unsaved(),
      keySetFault: () => pool()?.keySetFault,
      sheds: () => pool()?.sheds ?? [],
      backends: () => parts.probe(pool()?.backends),
    },
  }
}

/** The supervisor's own part of /metrics. */
function createMetricsOf({ pool, state, usage, reloads, live, log }: SupervisorParts) {
  const losses = { usage: () => usage.dropped, logLines: log.lostLines }
  const whole = {
    listening: () => pool()?.listening ?? 0,
    restarts: () => pool()?.restarts ?? 0,
    unsavedSeconds: () => Math.max(state.unsaved()?.seconds ?? 0, usage.unsavedSeconds),
    reloads: () => reloads,
    topClients: () => live.top.busiest(reloads.config.admin.topClients),
    deprecatedCallers: () => live.deprecated.clientsByRoute(),
  }
  return createSupervisorMetrics(whole, losses)
}
