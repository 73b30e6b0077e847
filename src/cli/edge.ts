/** The parts of its process that src/main.ts gives to a command. Types only. */
import type { Environment } from '../config/environment.ts'
import type { Screen } from './terminal/screen.ts'
import type { SupervisorChannel } from '../server/workers/worker.ts'

export interface Incidents {
  /** orphaned: npm, which has started this process, is gone. */
  signal(name: NodeJS.Signals | 'orphaned'): void
  warning(warning: Error): void
  /** An error that nobody handles: the process cannot go on. */
  crash(error: unknown): void
}

/** The part of a process that most commands need. */
export interface Output {
  readonly args: readonly string[]
  readonly env: Environment
  /** The terminal of the standard output; undefined: it is a pipe or a file. */
  readonly screen: Pick<Screen, 'columns'> | undefined
  /** Takes one line, without its line break. */
  print(line: string): void
  /** Takes one line for the standard error. */
  complain(line: string): void
}

export interface Edge extends Output {
  readonly version: string
  /** The file that a worker process runs. */
  readonly entry: string
  /** Undefined in a process that no supervisor has started. */
  readonly supervisor: SupervisorChannel | undefined
  readonly screen: Screen | undefined
  /** Aborted once the standard output has no reader any more. */
  readonly unread: AbortSignal
  /** Replaces the progress line on the terminal of the standard error; '' removes it. undefined: it is not a terminal. */
  progress?: ((line: string) => void) | undefined
  /** Sets the receiver of incidents; it receives at once the signals and warnings that nobody has received yet. */
  attend(incidents: Incidents): void
  exit(code: number): never
}

/** Options of a command that are text, each of which may be left out; their declarations say what they mean. */
export type Texts<Name extends string> = { readonly [Each in Name]?: string | undefined }
