/** The composition root of a gateway of several processes: workers take the requests, this process looks after them. */
import { startAdminServer, type AdminServer } from '../admin/server.ts'
import { createBackendProbe } from '../backends/probe.ts'
import { answerCalls, type CallHandlers } from '../ipc/calls.ts'
import { createLog, type Log } from '../observability/log.ts'
import {
  createSupervisorMetrics,
  renderSnapshots,
  type MetricsPage,
} from '../observability/metrics.ts'
import type { Config } from '../config/config.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { ListenError } from '../gateway/listen-error.ts'
import { createReadiness } from '../admin/readiness.ts'
import { openEmbeddedStores } from '../gateway/stores.ts'
import { openListenSockets } from '../listeners/bound-sockets.ts'
import type { Reclaim, SharedCalls } from './messages.ts'
import { createSharedState, type SharedState } from './shared-state.ts'
import { createWorkerPool, type WorkerPool } from './worker-pool.ts'
import { startWorker, WorkerFailed, type WorkerProcess } from './worker-process.ts'

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
}

export function createSupervisor(config: Config, options: SupervisorOptions): Supervisor {
  const takenAtMs = Date.now()
  const log = createLog(config.log)
  const embedded = config.store.redis === undefined ? openEmbeddedStores(config, log) : undefined
  const state = createSharedState({
    config,
    embedded,
    onBan: (keyId, ban) => pool?.notifyAll({ kind: 'banned', keyId, ban }),
    onMalformed: (where) => log.banMalformed({ where }),
  })
  const handlers = createHandlers(state, () => pool)
  const metrics = createSupervisorMetrics({
    listening: () => pool?.listening ?? 0,
    restarts: () => pool?.restarts ?? 0,
  })
  let pool: WorkerPool | undefined
  let admin: AdminServer | undefined
  let isListening = false
  const { workers: count, listen, timeouts } = config.server

  const page = once(async () => {
    const told = (await pool?.measure()) ?? []
    return renderSnapshots([...told, await metrics.snapshot()])
  })
  const readiness = createReadiness({
    config,
    listener: () => ({
      ok: isListening && pool !== undefined && pool.listening > 0,
      reason: isListening ? `${pool?.listening} of ${count} workers` : 'starting or draining',
    }),
    isStoreAvailable: () => pool?.hasStore ?? true,
    backend: createBackendProbe(config.upstream.urls, config.upstream.timeouts.connectMs),
  })
  const begin = (number: number, listenFd: number): WorkerProcess =>
    startWorker({
      entry: options.entry,
      start: { kind: 'start', number, version: options.version, config, takenAtMs },
      listenFd,
      onLines: (lines) => log.relay(lines),
      onCalls: (worker, batch) => answerCalls(handlers(worker), batch),
    })
  const close = async (): Promise<void> => {
    await pool?.drain()
    await admin?.close()
    await state.close()
    await log.close()
  }
  const abandon = (listener: 'public' | 'admin') => async (error: unknown) => {
    pool?.kill()
    await close()
    throw new ListenError(listener, error)
  }

  return {
    async listen() {
      await state.ready()
      admin = await startAdminServer({
        ...config.admin,
        renderMetrics: page,
        readiness,
        onError: (error) => log.adminFailed(error),
      }).catch(abandon('admin'))
      const sockets = await openListenSockets(listen).catch(abandon('public'))
      pool = createWorkerPool({
        count,
        sockets,
        drainMs: timeouts.drainMs,
        startWorker: begin,
        log: (line) => log.supervision(line),
      })
      await pool.start().catch(async (error: unknown) => {
        const isListener = error instanceof WorkerFailed && error.exit.fault?.isListener === true
        if (isListener) await abandon('public')(asNodeError(error))
        if ((error as NodeJS.ErrnoException).syscall === 'bind') await abandon('public')(error)
        pool?.kill()
        await close()
        throw error
      })
      isListening = true
      tellStart(log, config, { listen: sockets.address, admin: admin.address })
      return { listen: sockets.address, admin: admin.address }
    },
    async drain() {
      isListening = false
      log.supervision({ level: 'info', event: 'workersDraining', workers: pool?.listening ?? 0 })
      await close()
    },
    roll: async () => pool?.roll(),
    crash: (error) => log.crash(error),
    abandon: () => pool?.kill(),
  }
}

function tellStart(
  log: Log,
  config: Config,
  { listen, admin }: Awaited<ReturnType<Gateway['listen']>>,
): void {
  log.configTaken({ revision: config.revision })
  log.listening({ listener: 'public', ...listen })
  log.listening({ listener: 'admin', ...admin })
}

/** The code of a worker's fault, as if the error had come up here. */
const asNodeError = ({ message, exit }: WorkerFailed): Error =>
  Object.assign(new Error(message), { code: exit.fault?.code })

/** One page for all who ask at the same time: a crowd of scrapers costs the workers no more than one. */
function once(make: () => Promise<MetricsPage>): () => Promise<MetricsPage> {
  let underway: Promise<MetricsPage> | undefined
  return () =>
    (underway ??= make().finally(() => {
      underway = undefined
    }))
}

/** The answers to each worker; the others hear of its reclaims, once per turn of the event loop. */
function createHandlers(
  state: SharedState,
  pool: () => WorkerPool | undefined,
): (worker: WorkerProcess) => CallHandlers<SharedCalls> {
  const known = new WeakMap<WorkerProcess, CallHandlers<SharedCalls>>()
  const make = (worker: WorkerProcess): CallHandlers<SharedCalls> => {
    const reclaimed = new Map<string, Reclaim>()
    return state.handlers((reclaim) => {
      if (reclaimed.size === 0)
        setImmediate(() => {
          pool()?.notifyAll({ kind: 'reclaim', reclaims: [...reclaimed.values()] }, worker)
          reclaimed.clear()
        })
      reclaimed.set(reclaim.client, reclaim)
    })
  }
  return (worker) => {
    const handlers = known.get(worker) ?? make(worker)
    known.set(worker, handlers)
    return handlers
  }
}
