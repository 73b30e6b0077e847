/** One worker as its supervisor sees it: a child process with an IPC channel, a pipe for its stderr and a socket to listen on. */
import { fork, type ChildProcess } from 'node:child_process'
import type { Writable } from 'node:stream'
import { toPlainConfig, type PlainConfig } from '../../config/clients/client-table.ts'
import type { Config } from '../../config/config.ts'
import type { MetricsSnapshot } from '../../core/record/metric-registry.ts'
import { unpackSecond, type ProcessNow, type Second } from '../../insight/live/second.ts'
import { answerCalls, IpcCalls, type CallHandlers } from '../../state/calls.ts'
import type { SharedCalls } from '../../state/supervisor/home.ts'
import type { WorkerFacts, WorkerLink } from '../gateway/worker-link.ts'
import {
  CLIENTS_FD,
  STDERR_FD,
  type StartFault,
  type StartMessage,
  type ToSupervisor,
  type ToWorker,
  type WorkerQuestions,
} from './messages.ts'
import { sendClients } from './client-pipe.ts'

interface WorkerProcessOptions {
  /** The file that a worker runs: src/main.ts, or the file built from it. */
  readonly entry: string
  readonly start: Omit<StartMessage, 'kind' | 'config'>
  /** The configuration to begin with; the process is started meanwhile. */
  readonly config: Promise<Config>
  readonly listenFd: number
  readonly restarts: number
  /** Takes what Node.js reports on the worker's stderr; what comes in parts has a line for each. */
  onLines(lines: string): void
  readonly handlers: CallHandlers<SharedCalls>
  onSecond(second: Second): void
}

export interface WorkerExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** How long the worker was taking requests; 0: it never was. */
  readonly ranMs: number
  /** The fault that the worker reported before it ended, if it could not begin. */
  readonly fault: StartFault | undefined
  /** The worker was asked to end. */
  readonly isWanted: boolean
}

export const howEnded = ({ code, signal }: Pick<WorkerExit, 'code' | 'signal'>): string =>
  signal === null ? `exit code ${code}` : `signal ${signal}`

/** Deadline for a worker to take its clients, and then as long again to begin with them. */
const START_AT_MOST_MS = 30_000
/** Limit of unsent messages: those to a worker that stands still must not fill the memory of this process. */
const UNSENT_AT_MOST = 64
/** Deadline to take a configuration and build it aside. */
const PREPARE_AT_MOST_MS = 10_000
/** How long a page of metrics, or another question, waits for a worker that stands still. */
const ANSWER_AT_MOST_MS = 1_000
/** A worker reports each second; its state is unknown after so long a silence. */
const SILENT_MS = 3_000

export class WorkerProcess implements WorkerLink {
  readonly number: number
  readonly restarts: number
  readonly pid: number | undefined
  /** The state only ever moves forward. Written by #receive, drain and #end. */
  state: 'starting' | 'listening' | 'draining' | 'ended' = 'starting'
  /** Written by #receive, as are latest, sinceMs, heardMs and #now. */
  facts: WorkerFacts | undefined
  latest: MetricsSnapshot | undefined
  sinceMs: number | undefined
  /** Time of the last message, one being due each second; a watchdog that was late itself writes it too. */
  heardMs = performance.now()
  /** Questions are never dropped as notices are: one message of them is under way at a time, and a lost one would hold up all later. */
  readonly questions = new IpcCalls<WorkerQuestions>({
    timeoutMs: ANSWER_AT_MOST_MS,
    send: (batch) => this.#send(batch),
  })
  /** The options but the configuration to begin with: a living worker would keep that in memory here. */
  readonly #options: Omit<WorkerProcessOptions, 'config'>
  readonly #child: ChildProcess
  #now: ProcessNow | undefined
  /** Number of messages not handed over yet. Written by #send. */
  #unsent = 0
  /** Whether a notice was left out. Written by notify and #send. */
  #hasMissed = false
  readonly #listening = Promise.withResolvers<void>()
  /** Resolves once the worker takes requests; rejects if it ends before or takes too long, with an Error that has what its fault has. */
  readonly listening = this.#listening.promise
  readonly #ended = Promise.withResolvers<WorkerExit>()
  /** Resolves when the worker has ended and its last line was passed on; never rejects. */
  readonly ended = this.#ended.promise
  /** Ends a start or a drain that takes too long. Written by #killAfter; stopped by #receive and #end. */
  #deadline: NodeJS.Timeout | undefined
  /** Why the worker could not begin. Written by #receive and, if there is no process at all, by the constructor. */
  #fault: StartFault | undefined
  /** Takes the clients of configurations; undefined: the process could not be started. */
  readonly #clients: Writable | undefined
  /** The latest round whose configuration the worker prepares; fault: why it cannot. Written by prepare. */
  #round = { number: 0, answer: (_fault: string | undefined): void => undefined }

  constructor({ config: first, ...options }: WorkerProcessOptions) {
    this.number = options.start.number
    this.restarts = options.restarts
    this.#options = options
    this.#child = fork(options.entry, ['worker'], {
      // The configuration holds Maps, which the structured clone carries and JSON does not.
      serialization: 'advanced',
      // A signal that comes before the worker has its own handlers would open the debugger of Node.js.
      execArgv: [...process.execArgv, '--disable-sigusr1'],
      // The standard output is for what commands print; what comes on the standard error becomes log lines.
      stdio: ['ignore', 'ignore', 'pipe', 'ipc', options.listenFd, STDERR_FD, 'pipe'],
    })
    this.pid = this.#child.pid
    this.listening.catch(() => undefined)
    this.#child.stderr
      ?.setEncoding('utf8')
      .on('data', (text: string) => options.onLines(text.endsWith('\n') ? text : `${text}\n`))
    this.#child.on('message', (message) => this.#receive(message as ToSupervisor))
    // This event comes after the worker's last line, and 'exit' may come before.
    this.#child.on('close', (code, signal) => this.#end(code, signal))
    this.#child.on('error', ({ message }) => {
      // The event also reports a message that found no process; only a process that never began has no pid.
      if (this.pid !== undefined) return
      this.#fault = { message: `worker ${this.number} cannot be started: ${message}` }
      this.#end(null, null)
    })
    const { stdio } = this.#child as { readonly stdio?: readonly unknown[] }
    this.#clients = stdio?.[CLIENTS_FD] as Writable | undefined
    // The end of the worker says enough of what it has not taken.
    this.#clients?.on('error', () => undefined)
    void first.then((config) => this.#begin(config))
  }

  async #begin(config: Config): Promise<void> {
    if (this.state !== 'starting') return
    this.#killAfter(START_AT_MOST_MS)
    const { start } = this.#options
    await this.#sendConfig(config, (plain) => ({ kind: 'start', ...start, config: plain }))
    if (this.state === 'starting') this.#killAfter(START_AT_MOST_MS)
  }

  get now(): ProcessNow | undefined {
    return performance.now() - this.heardMs < SILENT_MS ? this.#now : undefined
  }

  /** Returns the worker's latest metrics, fresh if it answers in time; undefined if it never sent any. Never rejects. */
  async measure(): Promise<MetricsSnapshot | undefined> {
    // A worker that has not begun would leave the question unanswered.
    if (this.sinceMs !== undefined)
      await this.questions.call('measure', undefined).catch(() => undefined)
    return this.latest
  }

  /** Drops the notice, and sends `missed` later, while the worker takes no messages. */
  notify(message: ToWorker): void {
    const isTaking = this.#child.connected && this.#unsent <= UNSENT_AT_MOST
    if (isTaking) this.#send(message)
    else this.#hasMissed = true
  }

  /** Asks the worker to build a configuration aside, until settle. Rejects with an Error that says why it cannot. */
  async prepare(config: Config): Promise<void> {
    const { promise, resolve: answer } = Promise.withResolvers<string | undefined>()
    const round = this.#round.number + 1
    this.#round = { number: round, answer }
    void this.#sendConfig(config, (plain) => ({ kind: 'prepare', round, config: plain }))
    const silence = `has not answered for ${PREPARE_AT_MOST_MS / 1000} s`
    const timeUp = setTimeout(answer, PREPARE_AT_MOST_MS, silence)
    const fault = await promise
    clearTimeout(timeUp)
    if (fault !== undefined) throw new Error(`worker ${this.number}: ${fault}`)
  }

  /** Has the worker take what it was asked to prepare, or drop it. */
  settle(verdict: 'commit' | 'abort'): void {
    this.#send({ kind: verdict })
  }

  /** Asks the worker to end; kills it if it has not within timeoutMs. idleMs: see FrontDoor. */
  drain({ idleMs, timeoutMs }: { readonly idleMs: number; readonly timeoutMs: number }): void {
    if (this.state === 'draining' || this.state === 'ended') return
    this.state = 'draining'
    // The worker ends under the configuration that it has, so the round must not wait for it.
    this.#round.answer(undefined)
    this.#killAfter(timeoutMs)
    this.#send({ kind: 'drain', idleMs })
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  /** Sends a message with a configuration, whose clients follow on the pipe. Resolves when they are sent, or the worker has ended; never rejects. */
  async #sendConfig(config: Config, messageWith: (plain: PlainConfig) => ToWorker): Promise<void> {
    this.#send(messageWith(toPlainConfig(config)))
    if (this.#clients !== undefined) await sendClients(config, this.#clients)
  }

  /** Sends to a live worker; #end notices one that has gone. */
  #send(message: ToWorker): void {
    if (!this.#child.connected) return
    this.#unsent++
    this.#child.send(message, () => {
      this.#unsent--
      if (this.#unsent > 0 || !this.#hasMissed) return
      this.#hasMissed = false
      this.#send({ kind: 'missed' })
    })
  }

  #killAfter(delayMs: number): void {
    clearTimeout(this.#deadline)
    this.#deadline = setTimeout(() => this.kill(), delayMs)
  }

  #receive(message: ToSupervisor): void {
    this.heardMs = performance.now()
    switch (message.kind) {
      case 'second':
        this.#now = message.now
        this.facts = message.facts
        return this.#options.onSecond(unpackSecond(message.second))
      case 'measured':
        return void (this.latest = message.snapshot)
      case 'calls':
        return answerCalls(this.#options.handlers, message, (answers) => this.#send(answers))
      case 'answers':
        return this.questions.receive(message)
      case 'listening':
        this.facts = message.facts
        this.sinceMs = Date.now()
        this.#listening.resolve()
        if (this.state !== 'starting') return
        this.state = 'listening'
        return clearTimeout(this.#deadline)
      case 'failed':
        return void (this.#fault = message.fault)
      case 'prepared':
        if (message.round === this.#round.number) this.#round.answer(message.fault)
        return
    }
  }

  #end(code: number | null, signal: NodeJS.Signals | null): void {
    if (this.state === 'ended') return
    const { state } = this
    this.state = 'ended'
    clearTimeout(this.#deadline)
    this.questions.close()
    this.#round.answer(`has ended: ${howEnded({ code, signal })}`)
    const ranMs = this.sinceMs === undefined ? 0 : Date.now() - this.sinceMs
    const exit = { code, signal, ranMs, fault: this.#fault, isWanted: state === 'draining' }
    const message = `worker ${this.number} ended before it took requests: ${howEnded(exit)}`
    this.#listening.reject(Object.assign(new Error(message), exit.fault))
    this.#ended.resolve(exit)
  }
}
