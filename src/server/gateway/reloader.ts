/** Takes a new configuration, whole or not at all, for a signal, the admin listener or a file that changed. */
import type { Config } from '../../config/config.ts'
import { releaseClients } from '../../config/clients/release.ts'
import { ConfigError } from '../../config/problems.ts'
import type { Log } from '../../core/record/log.ts'
import {
  blastRadius,
  shortened,
  type BlastRadius,
  type OverNow,
  type ReloadOutcome,
  type ReloadWish,
} from '../../config/changes/blast-radius.ts'
import type { Counters } from '../../insight/usage/counters.ts'
import { overNow } from '../../insight/usage/over-now.ts'

/** Reads, parses and checks the files as they are now; throws or rejects with ConfigError. */
export type LoadConfig = () => Config | Promise<Config>

/** A configuration that was built aside. Exactly one of commit and abort is called, once. */
export interface Prepared {
  /** Applies it to requests that begin after this call. Never throws; synchronous: one assignment per thing that is swapped. */
  commit(): void
  /** Takes down what was built. Never throws. */
  abort(): void
}

interface ReloaderParts {
  /** Configuration at the start. */
  readonly config: Config
  readonly load: LoadConfig
  /** Builds everything aside; rejects with an Error that names key, file and remedy, and then nothing has changed. */
  readonly prepare: (config: Config) => Promise<Prepared>
  readonly log: Log
  readonly look: Counters['look']
}

const NAMES_IN_LOG = 20
const NAMES_IN_ANSWER = 1_000

const needsRestart = (key: string): string =>
  `${key}: needs a restart; put it back as it was, or restart the gateway`

export class Reloader {
  /** Configuration in force. Written by #take, as are these. */
  config: Config
  takenAtMs = Date.now()
  readonly counts = { taken: 0, refused: 0 }
  /** Why the latest reload was refused; undefined: it was taken. Written by #refuse, too. */
  fault: string | undefined
  readonly #parts: ReloaderParts
  /** Waiting reloads by what they ask for, so that a crowd of requests costs no more than one. */
  readonly #waiting = new Map<string, { dryRun: boolean; outcome: Promise<ReloadOutcome> }>()
  #last: Promise<unknown> = Promise.resolve()
  #isClosed = false

  constructor(parts: ReloaderParts) {
    this.#parts = parts
    this.config = parts.config
  }

  /** Runs one reload at a time; equal requests that come meanwhile become one. Never rejects. */
  reload({ dryRun = false, revision }: ReloadWish = {}): Promise<ReloadOutcome> {
    const key = JSON.stringify({ dryRun, revision })
    const waiting = this.#waiting.get(key)
    if (waiting !== undefined) return waiting.outcome
    const outcome = this.#last.then(() => {
      this.#waiting.delete(key)
      return this.#run(dryRun, revision)
    })
    this.#waiting.set(key, { dryRun, outcome })
    this.#last = outcome
    return outcome
  }

  /** Refuses all later reloads, as the gateway ends. */
  close(): void {
    this.#isClosed = true
  }

  async #run(dryRun: boolean, revision: string | undefined): Promise<ReloadOutcome> {
    let next: Config | undefined
    try {
      next = await this.#parts.load()
      if (revision !== undefined && next.revision !== revision)
        return { outcome: 'filesChanged', revision: next.revision }
      const radius = await blastRadius(this.config, next, NAMES_IN_ANSWER)
      if (radius.needsRestart.length > 0)
        return this.#refuse(radius.needsRestart.map(needsRestart), dryRun)
      if (!dryRun) await this.#take(next, radius)
      return {
        outcome: dryRun ? 'wouldBeTaken' : 'taken',
        revision: next.revision,
        blastRadius: radius,
        ...(dryRun && { over: await this.#over(next, radius), written: next.written }),
      }
    } catch (error) {
      const problems = error instanceof ConfigError ? error.format() : [(error as Error).message]
      return this.#refuse(problems, dryRun)
    } finally {
      if (next !== undefined && next !== this.config) releaseClients(next)
    }
  }

  #over(next: Config, { counts }: BlastRadius): Promise<OverNow> {
    return overNow({
      current: this.config,
      next,
      of: counts['limits.lowered'] ?? 0,
      look: this.#parts.look,
      isAwaited: () => [...this.#waiting.values()].some(({ dryRun }) => !dryRun),
    })
  }

  async #take(next: Config, radius: BlastRadius): Promise<void> {
    const { prepare, log } = this.#parts
    const prepared = await prepare(next)
    if (this.#isClosed) {
      prepared.abort()
      throw new Error('the gateway is stopping; the next start takes the config')
    }
    prepared.commit()
    releaseClients(this.config)
    this.config = next
    this.takenAtMs = Date.now()
    this.counts.taken++
    this.fault = undefined
    log.configTaken({ revision: next.revision, blastRadius: shortened(radius, NAMES_IN_LOG) })
    for (const problem of next.warnings) log.configWarning({ problem })
  }

  #refuse(problems: readonly string[], dryRun: boolean): ReloadOutcome {
    const { revision } = this.config
    if (!dryRun) {
      this.counts.refused++
      this.fault = `${problems[0]}${problems.length > 1 ? `, and ${problems.length - 1} more` : ''}`
      this.#parts.log.reloadRefused({ revision, problems })
    }
    return { outcome: 'refused', revision, problems }
  }
}
