/** How a configuration is changed while requests are served: everything is built aside, and then taken, or not. Types only. */
import type { Config } from '../../config/config.ts'

/** A configuration that was built aside. Exactly one of commit and abort is called, once. */
export interface Prepared {
  readonly revision: string
  /** From here on requests begin under it. Never throws; synchronous: one assignment per thing that is swapped. */
  commit(): void
  /** Takes down what was built. Never throws. */
  abort(): void
}

/** What can take a new configuration: one process, or all workers. */
export interface Reloadable {
  /** Builds everything aside; rejects with an Error that tells key, file and remedy, and then nothing has changed. */
  prepare(config: Config): Promise<Prepared>
}
