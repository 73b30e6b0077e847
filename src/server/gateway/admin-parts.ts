/** Builds the parts of the admin listener, alike for a gateway of one process and of several. */
import { hostname } from 'node:os'
import type { Overview } from '../../insight/api/live.ts'
import type { Ban } from '../../insight/api/state.ts'
import type { BackendHealth } from '../../core/backends/health.ts'
import { shownBan } from '../../admin/ban-operations.ts'
import type { ReadSettingLocations } from '../../config/clients/aside.ts'
import type { OperatorBans } from '../../core/bans/operator-bans.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { LiveNeeds } from '../../admin/live-operations.ts'
import type { CallerIds, CallerStanding } from '../../insight/explain/question.ts'
import { createAdmittedToday } from '../../insight/live/admitted-today.ts'
import { overview } from '../../insight/live/overview.ts'
import { createReadiness, type ReadinessParts } from '../../admin/readiness.ts'
import type { AdminServer, AdminServerOptions } from '../../admin/server.ts'
import type { WorkerState } from '../../admin/state-operations.ts'
import type { Live } from '../../insight/live/live.ts'
import type { Log } from '../../core/record/log.ts'
import type { MetricsSnapshot } from '../../core/record/metrics.ts'
import type { Reloadable } from './reload.ts'
import type { Claims } from '../../state/contract.ts'
import type { Counters } from '../../state/counters.ts'
import type { UsageHistory } from '../../insight/usage/usage-history.ts'
import type { ReadToken } from './read-token.ts'
import type { Reloader } from './reloader.ts'
import { createLiveExplainer } from './live-explainer.ts'
import { startNotifier } from './notifier.ts'
import { createStateParts } from './state-parts.ts'
import { readAdminTls } from './tls-files.ts'

/** Sources of the admin listener: one process has them by itself, a supervisor asks its workers. */
export interface AdminSources {
  readonly reloads: Reloader
  readonly log: Log
  readonly live: Live
  readonly version: string
  workers(): Overview['workers']
  backendHealth(): readonly BackendHealth[]
  /** Requests of an address without a valid credential, in the current minute. */
  anonymousRequests(address: string): number
  /** The caller's standing in each process. */
  standings(
    caller: CallerIds,
  ): Promise<{ answers: readonly CallerStanding[]; missing: readonly string[] }>
  /** Rejects where no process answers. */
  readToken(token: string): Promise<ReadToken>
  readonly recentRequests: LiveNeeds['recentRequests']
  readonly usage: UsageHistory
  readonly renderMetrics: AdminServerOptions['renderMetrics']
  readonly readiness: Omit<ReadinessParts, 'reloads' | 'logFault'>
  readonly bans: AdminServerOptions['bans'] & Pick<OperatorBans, 'all' | 'nowMs'>
  /** Returns the values of all serving processes, with the counters of those that have ended. */
  measure(): Promise<readonly MetricsSnapshot[]>
  processes(): readonly WorkerState[]
  readonly counters: Counters
  readonly claims: Claims
  /** undefined: the places are unknown. */
  readonly settingLocations: ReadSettingLocations | undefined
}

export const createAdminParts = (sources: AdminSources): AdminServerOptions => {
  const { reloads, log, live, usage, renderMetrics, readiness, bans } = sources
  const { store } = readiness
  const unsavedSeconds = (): number =>
    Math.max(readiness.unsaved()?.seconds ?? 0, usage.unsavedSeconds)
  const shown = (key: string, ban: BanRecord): Ban => shownBan(reloads.config, key, ban)
  const listBans = async (): Promise<Ban[]> =>
    (await bans.list()).map(([key, ban]) => shown(key, ban))
  const standing = {
    store,
    unsavedSeconds,
    logFault: log.fault,
    backends: sources.backendHealth,
    reloads,
    listBans,
  }
  live.watch({ ...standing, bans, shown })
  startNotifier(sources)
  const admittedToday = createAdmittedToday((day) => usage.day(day))
  return {
    listen: reloads.config.admin.listen,
    identity: readAdminTls(reloads.config.admin),
    reloads,
    bans,
    counters: sources.counters,
    live,
    overview: () => overview({ ...standing, ...sources, admittedToday, gateway: hostname() }),
    recentRequests: sources.recentRequests,
    explain: createLiveExplainer(sources),
    usage,
    state: createStateParts(sources),
    audit: log.audit,
    auditRefused: log.auditRefused,
    renderMetrics,
    readiness: createReadiness({ reloads, logFault: log.fault, ...readiness }),
    onError: (error) => log.adminFailed(error),
  }
}

/** Takes a configuration's changes to the admin listener together with the rest of it. */
export const withAdmin = (
  target: Reloadable,
  admin: () => AdminServer | undefined,
): Reloadable => ({
  async prepare(config) {
    const identity = readAdminTls(config.admin)
    const { commit, ...prepared } = await target.prepare(config)
    return {
      ...prepared,
      commit() {
        commit()
        admin()?.use(identity, config.admin)
      },
    }
  },
})
