/** How a configuration changes while requests are served: everything is built aside, and then committed or aborted. Types only. */
import type { Config } from '../../config/config.ts'

/** A configuration that was built aside. Exactly one of commit and abort is called, once. */
export interface Prepared {
  readonly revision: string
  /** Applies it to requests that begin after this call. Never throws; synchronous: one assignment per thing that is swapped. */
  commit(): void
  /** Takes down what was built. Never throws. */
  abort(): void
}

/** Takes a new configuration: one process, or all workers. */
export interface Reloadable {
  /** Builds everything aside; rejects with an Error that names key, file and remedy, and then nothing has changed. */
  prepare(config: Config): Promise<Prepared>
}
