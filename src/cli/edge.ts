/** What a command is given of its process by src/main.ts. Types only. */
import type { Environment } from '../config/environment.ts'
import type { Screen } from './terminal/screen.ts'
import type { SupervisorChannel } from '../server/workers/worker.ts'

/** What befalls a process. */
export interface Incidents {
  /** orphaned: npm, which has started this process, is gone. */
  signal(name: NodeJS.Signals | 'orphaned'): void
  warning(warning: Error): void
  /** An error that nobody handles: the process cannot go on. */
  crash(error: unknown): void
}

export interface Edge {
  readonly args: readonly string[]
  readonly env: Environment
  readonly version: string
  /** The file that a worker process runs. */
  readonly entry: string
  /** Undefined in a process that no supervisor has started. */
  readonly supervisor: SupervisorChannel | undefined
  /** The terminal that the standard output is; undefined: it is a pipe or a file. */
  readonly screen: Screen | undefined
  /** Aborted once nobody reads the standard output any more. */
  readonly unread: AbortSignal
  /** Takes one line, without its line break. */
  print(line: string): void
  /** The same for the standard error. */
  complain(line: string): void
  /** Shows one line on the terminal that the standard error is, in place of the one before; '' takes it away. undefined: it is none. */
  progress?: ((line: string) => void) | undefined
  /** Who hears of incidents from now on, and at once of the signals and warnings that nobody has heard yet. */
  attend(incidents: Incidents): void
  exit(code: number): never
}

export { OK, FAILED, REFUSED } from './terminal/fault.ts'
