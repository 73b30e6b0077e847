/** How a worker has ended. */
import type { StartFault } from './messages.ts'

export interface WorkerExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** How long it took requests; 0: it never did. */
  readonly ranMs: number
  /** The fault that it reported before it ended, if it could not begin. */
  readonly fault: StartFault | undefined
}

export class WorkerFailed extends Error {
  readonly exit: WorkerExit

  constructor(number: number, exit: WorkerExit) {
    super(
      exit.fault?.message ?? `worker ${number} ended before it took requests: ${howEnded(exit)}`,
    )
    this.exit = exit
  }
}

export const howEnded = ({ code, signal }: Pick<WorkerExit, 'code' | 'signal'>): string =>
  signal === null ? `exit code ${code}` : `signal ${signal}`
