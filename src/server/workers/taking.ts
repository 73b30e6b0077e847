/** A worker's part in a configuration that all workers take together, or none. */
import { fromPlainConfig, type PlainConfig } from '../../config/clients/client-table.ts'
import type { Prepared, Reloadable } from '../gateway/reloader.ts'

interface TakingParts {
  readonly target: Reloadable
  /** Called once: the fault says why this worker cannot prepare it; undefined: it could. */
  answer(round: number, fault: string | undefined): void
  /** Called where a configuration is in force in all other workers, and cannot be taken here. */
  onLeftBehind(error: Error): void
}

export class Taking {
  readonly #parts: TakingParts
  /** These three belong to the latest round. Written by prepare, settle and #end. */
  #round: number | undefined
  #prepared: Prepared | undefined
  #verdict: 'commit' | 'abort' | undefined
  /** Resolves when nothing is being prepared; never rejects. Written by prepare. */
  idle: Promise<void> = Promise.resolve()

  constructor(parts: TakingParts) {
    this.#parts = parts
  }

  /** table: its clients, once they are here; rejects if the round is given up before. */
  prepare(round: number, config: PlainConfig, table: Promise<ArrayBuffer>): void {
    this.#round = round
    this.#prepared = this.#verdict = undefined
    const { target, answer, onLeftBehind } = this.#parts
    const build = async () => target.prepare(fromPlainConfig(config, await table))
    this.idle = build().then(
      (prepared) => {
        // The round was given up while this worker was slow.
        if (this.#round !== round) return prepared.abort()
        this.#prepared = prepared
        answer(round, undefined)
        this.#end()
      },
      (error: Error) => {
        answer(round, error.message)
        if (this.#round === round && this.#verdict === 'commit') onLeftBehind(error)
      },
    )
  }

  /** Commits or aborts; a configuration that is still being prepared follows as soon as it is ready. */
  settle(verdict: 'commit' | 'abort', round: number): void {
    if (this.#round !== round) return
    this.#verdict = verdict
    this.#end()
  }

  #end(): void {
    if (this.#verdict === undefined) return
    this.#prepared?.[this.#verdict]()
    this.#prepared = undefined
  }
}
