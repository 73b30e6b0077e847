/** The life of a command that runs until a signal ends it: its start, its signals, its end, and their log. */
import type { ListenAddress } from '../config/config.ts'
import { nameOf } from '../config/hosts.ts'
import { ConfigError } from '../config/problems.ts'
import { createLog, type Log } from '../core/record/log.ts'
import type { Edge } from './edge.ts'
import { createServiceManager, type ServiceManager } from './service-manager.ts'
import { exitCodeOf, FAILED, OK, type Fault } from './terminal/fault.ts'

export interface Running {
  /** Drains and closes everything; resolves when nothing is left to wait for. */
  stop(): Promise<void>
  /** Takes the configuration as it is now, or logs why not. Never rejects. */
  reload?(): Promise<void>
  /** Replaces its processes one after the other, losing no request; undefined where there is only one. */
  roll?(): Promise<void>
  /** Ends the processes it has started, as this one is about to end without waiting. */
  abandon?(): void
}

/** Rejects with ConfigError if the configuration is refused, else with what kept it from starting. useLog: switches to the configured log. */
type Start = (useLog: (log: Log) => void) => Promise<Running>

/** npm passes on the SIGINT that the terminal has sent to this process already. */
const SAME_KEYPRESS_MS = 500

export class Service {
  readonly #edge: Edge
  readonly #hangUpEnds: boolean
  readonly #manager: ServiceManager
  /** Replaced once by the start, when it has read the configuration. */
  #log: Log = createLog({ level: 'info', access: false })
  /** Set once the start has succeeded. */
  #running: Running | undefined
  /** Whether a reload was asked for during the start; set by #reload. */
  #isReloadWanted = false
  /** When the first ending signal came; set by #end. */
  #endingSinceMs: number | undefined
  readonly #ending = Promise.withResolvers<void>()

  /** hangUpEnds: whether it ends with its terminal. */
  constructor(edge: Edge, { hangUpEnds }: { hangUpEnds: boolean }) {
    this.#edge = edge
    this.#hangUpEnds = hangUpEnds
    this.#manager = createServiceManager(edge.env, (fault) => this.#log.warning(fault))
  }

  /** Resolves to the exit code. A signal may come during the start already. */
  async run(start: Start): Promise<number> {
    this.#edge.attend({
      signal: (name) => this.#onSignal(name),
      warning: (warning) => this.#log.warning(warning),
      crash: (error) => {
        this.#log.crash(error)
        this.#edge.exit(FAILED)
      },
    })
    if (this.#endingSinceMs !== undefined) return OK
    try {
      this.#running = await start((log) => (this.#log = log))
    } catch (error) {
      return this.#refuse(error)
    }
    this.#manager.ready()
    if (this.#isReloadWanted) this.#reload()
    await this.#ending.promise
    this.#manager.stopping()
    await this.#running.stop()
    return OK
  }

  #refuse(error: unknown): number {
    // A key press goes to all processes at once, also to workers without handlers yet: a start that it ends has not failed.
    if (this.#endingSinceMs !== undefined) return OK
    const { message, why } = error as Error & Partial<Fault>
    const remedy = why?.remedy === undefined ? '' : `; ${why.remedy}`
    if (error instanceof ConfigError) this.#log.configRefused({ problems: error.format() })
    else this.#log.startFailed({ message: message + remedy })
    return exitCodeOf(error)
  }

  #onSignal(signal: NodeJS.Signals | 'orphaned'): void {
    const ignore = (message: string): void => this.#log.signalIgnored({ signal, message })
    if (signal === 'SIGUSR1') ignore('no debugger is opened here')
    else if (signal === 'SIGHUP' && !this.#hangUpEnds) this.#reload()
    else if (signal !== 'SIGUSR2') this.#end(signal)
    else if (this.#running?.roll !== undefined) void this.#running.roll()
    else ignore('there are no workers to roll (server.workers: 1)')
  }

  #reload(): void {
    // The start may have read the files before they changed.
    if (this.#running === undefined) this.#isReloadWanted = true
    else if (this.#running.reload !== undefined) {
      this.#manager.reloading()
      void this.#running.reload().then(() => {
        if (this.#endingSinceMs === undefined) this.#manager.ready()
      })
    } else
      this.#log.signalIgnored({ signal: 'SIGHUP', message: 'there is no config to read again' })
  }

  #end(signal: NodeJS.Signals | 'orphaned'): void {
    const nowMs = performance.now()
    this.#endingSinceMs ??= nowMs
    this.#ending.resolve()
    // A second signal asks not to wait; that npm has gone adds nothing.
    if (signal === 'orphaned' || nowMs - this.#endingSinceMs <= SAME_KEYPRESS_MS) return
    this.#running?.abandon?.()
    this.#edge.exit(FAILED)
  }
}

const portFaults: ReadonlyMap<string | undefined, string> = new Map([
  ['EADDRINUSE', 'the address is in use; stop what uses it'],
  ['EACCES', 'this user may not open that port; take one above 1023'],
  ['EADDRNOTAVAIL', 'this machine has no such address; take one of its own'],
  ['ENOTFOUND', 'the host name is unknown; write an address'],
  ['EAI_AGAIN', 'the host name cannot be looked up; write an address'],
])

/** Turns the error of a listener into what to do about it. setting: where its address is written. Other errors are returned as they are. */
export function explainPort(error: unknown, what: string, at: ListenAddress, setting: string) {
  const { code } = error as NodeJS.ErrnoException
  const fault = portFaults.get(code)
  if (fault === undefined) return error
  const message = `${what} cannot listen on ${nameOf(at)}: ${fault}, or change ${setting} (${code})`
  return new Error(message, { cause: error })
}
