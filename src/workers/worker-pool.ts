/** Keeps as many workers as are wanted: starts them, starts those again that crash, rolls them, and drains them. */
import type { MetricsSnapshot } from '../observability/metrics.ts'
import type { SupervisionLine } from '../observability/log.ts'
import { ROLL_IDLE_AT_MOST_MS, STOP_IDLE_AT_MOST_MS } from '../gateway/drain-times.ts'
import { afterCrash, noCrashes, restartDelayMs, type Crashes } from './back-off.ts'
import type { ListenSocket, ListenSockets } from '../listeners/bound-sockets.ts'
import type { ToWorker } from './messages.ts'
import { createRetiredCounters } from './retired-counters.ts'
import { howEnded, type WorkerExit, type WorkerProcess } from './worker-process.ts'

export interface WorkerPool {
  /** Resolves when all take requests; rejects with the WorkerFailed of the first that cannot. */
  start(): Promise<void>
  /** One worker after the other is replaced by a new one; stops at the first that cannot be. Never rejects. */
  roll(): Promise<void>
  /** Ends all workers after what is in flight, kills those that do not end, and starts no more. Never rejects. */
  drain(): Promise<void>
  /** Kills all workers, in this very call. */
  kill(): void
  /** A notice; see WorkerProcess. */
  notifyAll(message: ToWorker, except?: WorkerProcess): void
  /** The values of all workers, with the counters of those that have ended. */
  measure(): Promise<readonly MetricsSnapshot[]>
  readonly listening: number
  readonly restarts: number
  /** false: some worker that takes requests lacks its store. */
  readonly hasStore: boolean
}

export interface WorkerPoolOptions {
  readonly count: number
  readonly sockets: ListenSockets
  readonly drainMs: number
  startWorker(number: number, listenFd: number): WorkerProcess
  log(line: SupervisionLine): void
}

interface Slot {
  readonly number: number
  /** Kept open as long as somebody listens on it, or is about to. */
  socket: ListenSocket | undefined
  /** The worker that takes requests here, or is to. */
  worker: WorkerProcess | undefined
  /** Is to take over in a roll. */
  successor: WorkerProcess | undefined
  crashes: Crashes
  restart: NodeJS.Timeout | undefined
}

/** Beyond the drain time: quota is handed back and the log written. */
const DRAIN_MARGIN_MS = 5_000

export function createWorkerPool(options: WorkerPoolOptions): WorkerPool {
  const { sockets, drainMs, log } = options
  const alive = new Set<WorkerProcess>()
  const slots = Array.from({ length: options.count }, (_, at): Slot => ({
    number: at + 1,
    socket: undefined,
    worker: undefined,
    successor: undefined,
    crashes: noCrashes,
    restart: undefined,
  }))
  const retired = createRetiredCounters()
  let restarts = 0
  let isStarted = false
  let isDraining = false
  let rolling: Promise<void> | undefined
  const timeoutMs = drainMs + DRAIN_MARGIN_MS

  /** Throws when the system has no socket or process left to give. */
  const start = (slot: Slot): WorkerProcess => {
    const { number } = slot
    slot.socket ??= sockets.open()
    const worker = options.startWorker(number, slot.socket.fd)
    alive.add(worker)
    worker.listening.then(
      () => log({ level: 'info', event: 'workerStarted', worker: number, pid: worker.pid }),
      () => undefined,
    )
    void worker.ended.then((exit) => ended(slot, worker, exit))
    return worker
  }

  const ended = (slot: Slot, worker: WorkerProcess, exit: WorkerExit): void => {
    alive.delete(worker)
    retired.add(worker.latest)
    const told = {
      worker: slot.number,
      pid: worker.pid,
      cause: exit.fault?.message ?? howEnded(exit),
    }
    if (slot.worker !== worker && slot.successor !== worker)
      log({ level: 'info', event: 'workerStopped', ...told })
    else if (!isDraining) log({ level: 'error', event: 'workerCrashed', ...told })
    if (slot.worker === worker) slot.worker = undefined
    if (slot.successor === worker) slot.successor = undefined
    if (isStarted && !isDraining && slot.worker === undefined && slot.successor === undefined)
      restartLater(slot, exit.ranMs)
  }

  const restartLater = (slot: Slot, ranMs: number): void => {
    // Nobody listens on the old socket any more; what the kernel would put into its queue belongs to the others.
    closeSocket(slot)
    slot.crashes = afterCrash(slot.crashes, ranMs)
    const delayMs = restartDelayMs(slot.crashes, Math.random())
    log({
      level: 'warn',
      event: 'workerRestarting',
      worker: slot.number,
      delayMs,
      crashes: slot.crashes.inARow,
    })
    slot.restart = setTimeout(() => {
      restarts++
      try {
        slot.worker = start(slot)
      } catch (error) {
        const cause = (error as Error).message
        log({ level: 'error', event: 'workerCrashed', worker: slot.number, cause })
        restartLater(slot, 0)
      }
    }, delayMs)
  }

  const closeSocket = (slot: Slot): void => {
    slot.socket?.close()
    slot.socket = undefined
  }

  /** false: no new worker came up here, and the old one stays. */
  const replace = async (slot: Slot): Promise<boolean> => {
    const { worker: old } = slot
    // It is about to be started anew in any case.
    if (old?.state !== 'listening') return true
    let successor: WorkerProcess
    try {
      successor = start(slot)
      slot.successor = successor
      await successor.listening
    } catch (error) {
      log({
        level: 'error',
        event: 'rollFailed',
        worker: slot.number,
        cause: (error as Error).message,
      })
      return false
    }
    if (isDraining) return false
    slot.worker = successor
    slot.successor = undefined
    slot.crashes = noCrashes
    old.drain({ idleMs: Math.min(ROLL_IDLE_AT_MOST_MS, drainMs / 2), timeoutMs })
    await old.ended
    return true
  }

  const rollAll = async (): Promise<void> => {
    log({ level: 'info', event: 'rollStarted', workers: slots.length })
    for (const slot of slots) if (isDraining || !(await replace(slot))) return
    log({ level: 'info', event: 'rollDone', workers: slots.length })
  }

  return {
    async start() {
      const begun = slots.map((slot) => (slot.worker = start(slot)))
      await Promise.all(begun.map(({ listening }) => listening))
      isStarted = true
      // One may have ended again while the others came up.
      for (const slot of slots) if (slot.worker === undefined) restartLater(slot, 0)
    },
    roll() {
      if (isStarted && !isDraining)
        rolling ??= rollAll().finally(() => {
          rolling = undefined
        })
      return rolling ?? Promise.resolve()
    },
    async drain() {
      isDraining = true
      for (const { restart } of slots) clearTimeout(restart)
      const idleMs = Math.min(STOP_IDLE_AT_MOST_MS, timeoutMs / 2)
      for (const worker of alive) worker.drain({ idleMs, timeoutMs })
      // Else connections would queue up here after the workers have stopped to take them.
      slots.forEach(closeSocket)
      sockets.close()
      await Promise.all(Array.from(alive, (worker) => worker.ended))
    },
    kill() {
      isDraining = true
      for (const worker of alive) worker.kill()
    },
    notifyAll(message, except) {
      for (const worker of alive) if (worker !== except) worker.notify(message)
    },
    async measure() {
      // Before the question: a worker that ends meanwhile is told of by its own answer alone.
      const dead = retired.snapshots()
      const told = await Promise.all(Array.from(alive, (worker) => worker.measure()))
      return [...told.filter((one) => one !== undefined), ...dead]
    },
    get listening() {
      return slots.filter(({ worker }) => worker?.state === 'listening').length
    },
    get restarts() {
      return restarts
    },
    get hasStore() {
      return slots.every(({ worker }) => worker?.state !== 'listening' || worker.hasStore)
    },
  }
}
