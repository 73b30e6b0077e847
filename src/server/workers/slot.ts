/** One slot of the pool: keeps one worker in it, through crashes and rolls. */
import type { SupervisionLine } from '../../core/record/log.ts'
import type { ListenSocket, ListenSockets } from './listen-sockets.ts'
import { howEnded, type WorkerExit, type WorkerProcess } from './worker-process.ts'

export interface SlotOptions {
  readonly sockets: ListenSockets
  drainMs(): number
  startWorker(number: number, listenFd: number, restarts: number): WorkerProcess
  log(line: SupervisionLine): void
}

/** In a roll there is no hurry: the next request of a connection may be on the wire already. */
const IDLE_AT_MOST_MS = 3_000
/** Time beyond the drain time, in which quota is handed back and the log written. */
const DRAIN_MARGIN_MS = 5_000

const FIRST_RESTART_MS = 100
const LAST_RESTART_MS = 30_000
/** A worker that ran for so long was well: its end belongs to no crash loop. */
const WELL_AFTER_MS = 60_000

/** Returns the crashes in a row, without a worker that ran well in between. ranMs: how long this one took requests, 0 if it never did. */
export const crashesAfter = (inARow: number, ranMs: number): number =>
  ranMs >= WELL_AFTER_MS ? 1 : inARow + 1

/** The delay doubles from 100 ms to 30 s; random, from 0 to 1, takes up to half of it off, so that workers do not start in step. */
export function restartDelayMs(crashesInARow: number, random: number): number {
  const longest = Math.min(FIRST_RESTART_MS * 2 ** Math.max(0, crashesInARow - 1), LAST_RESTART_MS)
  return Math.round(longest * (1 - random / 2))
}

export class Slot {
  readonly number: number
  /** Processes that have not ended: the worker, its successor, those that drain. Written by #start and #ended. */
  readonly alive = new Set<WorkerProcess>()
  /** Written by #restartLater. */
  restarts = 0
  readonly #options: SlotOptions
  /** Says what the end of a worker means: a start that failed, a crash, or a wanted end. Written by start and drain. */
  #phase: 'starting' | 'kept' | 'draining' = 'starting'
  /** Kept open as long as a worker listens on it, or is about to. Written by #start and #closeSocket. */
  #socket: ListenSocket | undefined
  /** Both written by #restartLater; a roll that succeeds begins to count anew. */
  #crashesInARow = 0
  #restart: NodeJS.Timeout | undefined

  constructor(number: number, options: SlotOptions) {
    this.number = number
    this.#options = options
  }

  /** Resolves when the first worker takes requests, which from then on is restarted whenever it ends; rejects as its `listening` does, or when the system has no socket or process left to give. */
  async start(): Promise<void> {
    await this.#start().listening
    if (this.#phase === 'starting') this.#phase = 'kept'
  }

  /** Rolls the slot. Returns false if no new worker came up, and the old one stays. */
  async replace(): Promise<boolean> {
    const old = Array.from(this.alive).find(({ state }) => state === 'listening')
    // A slot without a listening worker is about to get one in any case.
    if (old === undefined) return true
    try {
      await this.#start().listening
      if (this.#phase === 'draining') return false
    } catch (error) {
      const cause = (error as Error).message
      if (this.#phase !== 'draining')
        this.#options.log({ level: 'error', event: 'rollFailed', worker: this.number, cause })
      return false
    }
    this.#crashesInARow = 0
    const drainMs = this.#options.drainMs()
    old.drain({
      idleMs: Math.min(IDLE_AT_MOST_MS, drainMs / 2),
      timeoutMs: drainMs + DRAIN_MARGIN_MS,
    })
    await old.ended
    return true
  }

  /** Ends its processes after what is in flight, kills those that do not end, and starts no more. */
  async drain(idleMs: number): Promise<void> {
    this.#phase = 'draining'
    clearTimeout(this.#restart)
    const times = { idleMs, timeoutMs: this.#options.drainMs() + DRAIN_MARGIN_MS }
    for (const worker of this.alive) worker.drain(times)
    // Connections would otherwise queue up here when the workers no longer take them.
    this.#closeSocket()
    await Promise.all(Array.from(this.alive, (worker) => worker.ended))
  }

  #start(): WorkerProcess {
    const { sockets, startWorker, log } = this.#options
    this.#socket ??= sockets.open()
    const worker = startWorker(this.number, this.#socket.fd, this.restarts)
    this.alive.add(worker)
    worker.listening.then(
      () => log({ level: 'info', event: 'workerStarted', worker: this.number, pid: worker.pid }),
      () => undefined,
    )
    void worker.ended.then((exit) => this.#ended(worker, exit))
    return worker
  }

  #ended(worker: WorkerProcess, exit: WorkerExit): void {
    const { log } = this.#options
    this.alive.delete(worker)
    const cause = exit.fault?.message ?? howEnded(exit)
    const line = { worker: this.number, pid: worker.pid, cause }
    if (this.#phase === 'draining') return
    if (exit.isWanted) return log({ level: 'info', event: 'workerStopped', ...line })
    log({ level: 'error', event: 'workerCrashed', ...line })
    // Another worker may take requests here, or be about to: a roll starts the new one before it ends the old.
    const isLast = Array.from(this.alive).every(({ state }) => state === 'draining')
    if (this.#phase === 'kept' && isLast) this.#restartLater(exit.ranMs)
  }

  #restartLater(ranMs: number): void {
    const { log } = this.#options
    // No process listens on the old socket any more; connections that the kernel would put into its queue belong to the others.
    this.#closeSocket()
    const crashesInARow = crashesAfter(this.#crashesInARow, ranMs)
    const delayMs = restartDelayMs(crashesInARow, Math.random())
    this.#crashesInARow = crashesInARow
    log({ level: 'warn', event: 'workerRestarting', worker: this.number, delayMs, crashesInARow })
    this.#restart = setTimeout(() => {
      this.restarts++
      try {
        this.#start()
      } catch (error) {
        const cause = (error as Error).message
        log({ level: 'error', event: 'workerCrashed', worker: this.number, cause })
        this.#restartLater(0)
      }
    }, delayMs)
  }

  #closeSocket(): void {
    this.#socket?.close()
    this.#socket = undefined
  }
}
