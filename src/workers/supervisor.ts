/** The composition root of a gateway of several processes: workers take the requests, this process looks after them. */
import { startAdminServer, type AdminServer } from '../admin/server.ts'
import { createBackend } from '../backends/backend.ts'
import { createBackendProbe } from '../backends/probe.ts'
import { answerCalls } from '../ipc/calls.ts'
import type { Log } from '../observability/log.ts'
import {
  createSupervisorMetrics,
  renderSnapshots,
  type MetricsPage,
} from '../observability/metrics.ts'
import type { Config } from '../config/config.ts'
import { storeInWords } from '../config/store-words.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { ListenError } from '../gateway/listen-error.ts'
import { createReadiness, embeddedHealth } from '../admin/readiness.ts'
import { openEmbeddedStores } from '../gateway/stores.ts'
import { openListenSockets, type ListenSockets } from '../listeners/bound-sockets.ts'
import type { Reclaim } from './messages.ts'
import { createSharedState, type SharedState } from './shared-state.ts'
import { defaultWatchdog, type WatchdogOptions } from './watchdog.ts'
import { WorkerPool } from './worker-pool.ts'
import { WorkerFailed, WorkerProcess } from './worker-process.ts'

export interface Supervisor extends Gateway {
  /** Replaces one worker after the other, losing no request. Never rejects. */
  roll(): Promise<void>
  /** Ends the workers at once, for a process that is about to end itself. */
  abandon(): void
}

export interface SupervisorOptions {
  readonly version: string
  /** The file that a worker runs. */
  readonly entry: string
  /** Closed by drain, and if listen rejects. */
  readonly log: Log
  readonly watchdog?: WatchdogOptions
}

export function createSupervisor(config: Config, options: SupervisorOptions): Supervisor {
  const parts = createParts(config, options.log)
  const { log, state } = parts
  const close = async (): Promise<void> => {
    await parts.pool?.drain()
    await parts.admin?.close()
    await state.close()
    await log.close()
  }
  /** Ends a start that has failed. */
  const fail = async (error: unknown): Promise<never> => {
    parts.pool?.kill()
    await close()
    throw error
  }
  return {
    async listen() {
      await state.ready()
      const admin = await startAdmin(config, parts).catch(onListener('admin', fail))
      parts.admin = admin
      const { listen } = config.server
      const sockets = await openListenSockets(listen).catch(onListener('public', fail))
      parts.pool = createPool(config, options, { parts, sockets })
      await parts.pool.start().catch((error: unknown) => fail(asListenError(error)))
      parts.isListening = true
      log.configTaken({ revision: config.revision, store: storeInWords(config.store) })
      for (const problem of config.warnings) log.configWarning({ problem })
      log.listening({ listener: 'public', ...sockets.address })
      log.listening({ listener: 'admin', ...admin.address })
      return { listen: sockets.address, admin: admin.address }
    },
    async drain() {
      parts.isListening = false
      const workers = parts.pool?.listening ?? 0
      log.supervision({ level: 'info', event: 'workersDraining', workers })
      await close()
    },
    roll: async () => parts.pool?.roll(),
    abandon: () => parts.pool?.kill(),
  }
}

interface Parts {
  readonly takenAtMs: number
  readonly log: Log
  readonly state: SharedState
  /** The three written by createSupervisor, as the start goes on; isListening also by the end. */
  admin: AdminServer | undefined
  pool: WorkerPool | undefined
  isListening: boolean
}

function createParts(config: Config, log: Log): Parts {
  const embedded = config.store.redis === undefined ? openEmbeddedStores(config, log) : undefined
  const state = createSharedState({
    config,
    embedded,
    onBan: (keyId, ban) => parts.pool?.notifyAll({ kind: 'banned', keyId, ban }),
    onMalformed: (where) => log.banMalformed({ where }),
  })
  const takenAtMs = Date.now()
  const parts: Parts = {
    takenAtMs,
    log,
    state,
    admin: undefined,
    pool: undefined,
    isListening: false,
  }
  return parts
}

function startAdmin(config: Config, parts: Parts): Promise<AdminServer> {
  const { upstream, server } = config
  const metrics = createSupervisorMetrics({
    listening: () => parts.pool?.listening ?? 0,
    restarts: () => parts.pool?.restarts ?? 0,
  })
  return startAdminServer({
    ...config.admin,
    renderMetrics: once(async () => {
      const ofWorkers = (await parts.pool?.measure()) ?? []
      return renderSnapshots([...ofWorkers, await metrics.snapshot()])
    }),
    readiness: createReadiness({
      config,
      listener: () => {
        const { isListening, pool } = parts
        if (!isListening || pool === undefined) return { ok: false, reason: 'starting or draining' }
        const { listening } = pool
        return { ok: listening > 0, reason: `${listening} of ${server.workers} workers` }
      },
      store: () => parts.pool?.store ?? embeddedHealth,
      keySetFault: () => parts.pool?.keySetFault,
      backends: createBackendProbe(upstream.urls.map(createBackend), upstream.timeouts.connectMs),
    }),
    onError: (error) => parts.log.adminFailed(error),
  })
}

function createPool(
  config: Config,
  { entry, version, watchdog = defaultWatchdog }: SupervisorOptions,
  { parts, sockets }: { readonly parts: Parts; readonly sockets: ListenSockets },
): WorkerPool {
  const { log, state, takenAtMs } = parts
  return new WorkerPool({
    count: config.server.workers,
    sockets,
    drainMs: config.server.timeouts.drainMs,
    watchdog,
    startWorker: (number, listenFd) => {
      const reclaim = oncePerTurn((reclaims) =>
        parts.pool?.notifyAll({ kind: 'reclaim', reclaims }, worker),
      )
      const handlers = state.handlers(reclaim)
      const worker: WorkerProcess = new WorkerProcess({
        entry,
        start: { kind: 'start', number, version, config, takenAtMs },
        listenFd,
        onLines: (lines) => log.relay(lines),
        onCalls: (batch) => answerCalls(handlers, batch),
      })
      return worker
    },
    log: (line) => log.supervision(line),
  })
}

const onListener =
  (listener: 'public' | 'admin', fail: (error: unknown) => Promise<never>) => (error: unknown) =>
    fail(new ListenError(listener, error))

/** A worker that could not have the public listener, as if the fault had come up here; any other fault as it is. */
function asListenError(error: unknown): unknown {
  const { fault } = error instanceof WorkerFailed ? error.exit : {}
  if (fault?.isListener)
    return new ListenError('public', Object.assign(new Error(fault.message), { code: fault.code }))
  const isBind = (error as NodeJS.ErrnoException).syscall === 'bind'
  return isBind ? new ListenError('public', error) : error
}

/** One page for all who ask at the same time: a crowd of scrapers costs the workers no more than one. */
function once(make: () => Promise<MetricsPage>): () => Promise<MetricsPage> {
  let underway: Promise<MetricsPage> | undefined
  return () =>
    (underway ??= make().finally(() => {
      underway = undefined
    }))
}

/** The others hear of what a worker reclaims once per turn of the event loop. */
function oncePerTurn(notify: (reclaims: readonly Reclaim[]) => void): (reclaim: Reclaim) => void {
  const reclaimed = new Map<string, Reclaim>()
  return (reclaim) => {
    if (reclaimed.size === 0)
      setImmediate(() => {
        notify([...reclaimed.values()])
        reclaimed.clear()
      })
    reclaimed.set(reclaim.client, reclaim)
  }
}
