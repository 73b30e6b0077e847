/** What a command that keeps running gives back to the process's edge. Types only. */

export interface Running {
  /** Drains and closes everything; resolves when nothing is left to wait for. */
  stop(reason: string): Promise<void>
  /** Tells of the error over which the process is about to end; written before it returns. */
  crash(error: unknown): void
  /** Replaces its processes one after the other, losing no request; undefined where there is only one. */
  roll?(): Promise<void>
  /** Ends the processes it has started, as this one is about to end without waiting. */
  abandon?(): void
}
