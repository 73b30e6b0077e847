/** One worker as its supervisor sees it: a child process with an IPC channel, a pipe for its log and a socket to listen on. */
import { fork } from 'node:child_process'
import type { CallBatch } from '../ipc/calls.ts'
import type { MetricsSnapshot } from '../observability/metrics.ts'
import type { ListenAddress } from '../config/config.ts'
import { createLineRelay } from './line-relay.ts'
import type { StartFault, StartMessage, ToSupervisor, ToWorker } from './messages.ts'

export interface WorkerExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** How long it took requests; 0: it never did. */
  readonly ranMs: number
  /** What it said before it ended, if it could not begin. */
  readonly fault: StartFault | undefined
}

export interface WorkerProcess {
  readonly number: number
  readonly pid: number
  readonly state: 'starting' | 'listening' | 'draining' | 'ended'
  /** Whether the worker has Redis, or needs none. */
  readonly hasStore: boolean
  /** Resolves once it takes requests; rejects with a WorkerFailed if it ends before or takes too long. */
  readonly listening: Promise<ListenAddress>
  /** Resolves when it has ended and its last line was passed on. */
  readonly ended: Promise<WorkerExit>
  /** What it told last. */
  readonly latest: MetricsSnapshot | undefined
  /** Its latest values, fresh unless it does not answer in time; undefined if it never told any. */
  measure(): Promise<MetricsSnapshot | undefined>
  /** A notice; left out while the worker does not take its messages, and made up for with `missed`. */
  notify(message: ToWorker): void
  /** Asks it to end; kills it if it has not within timeoutMs. */
  drain(times: { readonly idleMs: number; readonly timeoutMs: number }): void
  kill(): void
}

export class WorkerFailed extends Error {
  override readonly name = 'WorkerFailed'
  readonly exit: WorkerExit

  constructor(number: number, exit: WorkerExit) {
    super(
      exit.fault?.message ?? `worker ${number} ended before it took requests: ${howEnded(exit)}`,
    )
    this.exit = exit
  }
}

export const howEnded = ({ code, signal }: WorkerExit): string =>
  signal === null ? `exit code ${code}` : `signal ${signal}`

export interface WorkerProcessOptions {
  /** The file that a worker runs: src/main.ts, or what it was built to. */
  readonly entry: string
  readonly start: StartMessage
  readonly listenFd: number
  /** Takes whole lines of its log. */
  onLines(lines: string): void
  /** Answers with a message to send back. */
  onCalls(worker: WorkerProcess, batch: CallBatch): Promise<ToWorker>
}

const START_AT_MOST_MS = 30_000
/** How long a page of metrics waits for a worker that stands still. */
const MEASURE_AT_MOST_MS = 1_000
/** A worker that stands still must not fill this process with what it is to hear. */
const UNTAKEN_MESSAGES = 64

export function startWorker(options: WorkerProcessOptions): WorkerProcess {
  const { number } = options.start
  const child = fork(options.entry, ['worker'], {
    // The structured clone, as the configuration holds Maps.
    serialization: 'advanced',
    // The standard output is for what commands print.
    stdio: ['ignore', 'ignore', 'pipe', 'ipc', options.listenFd],
  })
  const listening = Promise.withResolvers<ListenAddress>()
  const ended = Promise.withResolvers<WorkerExit>()
  listening.promise.catch(() => undefined)
  let state: WorkerProcess['state'] = 'starting'
  let hasStore = true
  let listeningSinceMs: number | undefined
  let fault: StartFault | undefined
  let latest: MetricsSnapshot | undefined
  let lastId = 0
  const measuring = new Map<number, () => void>()

  const kill = (): void => void child.kill('SIGKILL')
  const startTimer = setTimeout(kill, START_AT_MOST_MS)
  let drainTimer: NodeJS.Timeout | undefined

  const hear: { [Kind in ToSupervisor['kind']]: (message: ToSupervisor & { kind: Kind }) => void } =
    {
      calls: (batch) => void options.onCalls(worker, batch).then(tell),
      listening: ({ address }) => {
        clearTimeout(startTimer)
        if (state === 'starting') state = 'listening'
        listeningSinceMs = performance.now()
        listening.resolve(address)
      },
      failed: (message) => void (fault = message.fault),
      store: ({ available }) => void (hasStore = available),
      measured: ({ id, snapshot }) => {
        latest = snapshot
        if (id !== undefined) measuring.get(id)?.()
      },
    }
  const end = (code: number | null, signal: NodeJS.Signals | null): void => {
    if (state === 'ended') return
    state = 'ended'
    clearTimeout(startTimer)
    clearTimeout(drainTimer)
    relay.end()
    for (const answered of measuring.values()) answered()
    const ranMs = listeningSinceMs === undefined ? 0 : performance.now() - listeningSinceMs
    const exit = { code, signal, ranMs, fault }
    listening.reject(new WorkerFailed(number, exit))
    ended.resolve(exit)
  }
  const relay = createLineRelay(options.onLines)
  child.stderr?.setEncoding('utf8').on('data', relay.take)
  child.on('message', (message) => {
    const told = message as ToSupervisor
    const listener = hear[told.kind] as (message: ToSupervisor) => void
    listener(told)
  })
  // After its last line, unlike 'exit'.
  child.on('close', end)
  child.on('error', (error) => {
    // Also told of a message that found nobody; only a process that never began has no pid.
    if (child.pid !== undefined) return
    fault = {
      message: `worker ${number} cannot be started: ${error.message}`,
      code: undefined,
      isListener: false,
    }
    end(null, null)
  })

  let untaken = 0
  let hasMissed = false
  function tell(message: ToWorker): void {
    // A worker that has gone is told nothing more; its end is seen on its own.
    if (!child.connected) return
    untaken++
    child.send(message, () => {
      untaken--
      if (untaken > 0 || !hasMissed) return
      hasMissed = false
      tell({ kind: 'missed' })
    })
  }
  const worker: WorkerProcess = {
    number,
    pid: child.pid ?? 0,
    get state() {
      return state
    },
    get latest() {
      return latest
    },
    get hasStore() {
      return hasStore
    },
    listening: listening.promise,
    ended: ended.promise,
    measure: async () => {
      if (!child.connected || untaken > UNTAKEN_MESSAGES) return latest
      const id = ++lastId
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, MEASURE_AT_MOST_MS)
      measuring.set(id, resolve)
      tell({ kind: 'measure', id })
      await promise
      clearTimeout(timer)
      measuring.delete(id)
      return latest
    },
    notify: (message) => {
      if (untaken > UNTAKEN_MESSAGES) hasMissed = true
      else tell(message)
    },
    drain: ({ idleMs, timeoutMs }) => {
      if (state === 'draining' || state === 'ended') return
      state = 'draining'
      drainTimer = setTimeout(kill, timeoutMs)
      tell({ kind: 'drain', idleMs })
    },
    kill,
  }
  tell(options.start)
  return worker
}
