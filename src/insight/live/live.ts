/** Recent activity of this gateway over all its processes; bounded, and lost when the gateway ends. */
import type { Tick } from '../api/live.ts'
import { ChangeWatch, type Watched } from './changes.ts'
import { Events } from './events.ts'
import { SeenClients } from './seen-clients.ts'
import type { Second } from './second.ts'
import { Seconds } from './seconds.ts'
import { DeprecatedCallers } from './deprecated-callers.ts'
import { ShadowCounts } from './shadow-counts.ts'
import { TopClients } from './top.ts'

/** Decisions sent as events each second, at most. */
const DECISIONS_A_SECOND = 50

export class Live {
  readonly startedAtMs = Date.now()
  readonly seconds = new Seconds()
  readonly top = new TopClients()
  readonly clients = new SeenClients()
  readonly deprecated = new DeprecatedCallers()
  readonly shadow = new ShadowCounts()
  readonly changes = new ChangeWatch()
  readonly events = new Events()
  /** Is called once for each second that is over and has reports, with the sum of all processes and every row. Written by who sends notices. */
  onSecond: ((second: Second) => void) | undefined
  /** Figures of the last reported second. Written by close. */
  latest: Tick | null = null
  readonly #ending = new AbortController()
  /** Aborted when the gateway ends. */
  readonly ended = this.#ending.signal
  #standing: Watched | undefined

  /** Adds a second of one process; the same one must not be added twice. */
  add(second: Second): void {
    this.seconds.add(second)
    if (second.deprecated !== undefined) this.deprecated.add(second.deprecated)
    this.shadow.add(second.rows, second.at * 1000)
  }

  /** Has every later close(), one a second, check this state for changes. */
  watch(standing: Watched): void {
    this.#standing = standing
  }

  /** Ends the seconds up to this one (Unix time), and passes on what was reported of them. */
  close(upTo: number): void {
    for (const second of this.seconds.close(upTo)) {
      this.top.add(second.at, second.rows)
      this.clients.add(second.at, second.rows)
      this.onSecond?.(second)
      if (this.seconds.latest === undefined) continue
      const { decisions } = second
      const most = Math.min(decisions.length, DECISIONS_A_SECOND)
      // Each process has reported up to so many: they are left out at equal distances, so that some of each are sent.
      const sentBefore = (index: number): number => Math.floor((index * most) / decisions.length)
      const sent = decisions.filter((_, index) => sentBefore(index + 1) > sentBefore(index))
      for (const decision of sent) this.events.publish('decision', decision)
      this.latest = { ...this.seconds.latest, untold: second.requests - sent.length }
      this.events.publish('tick', this.latest)
    }
    if (this.#standing === undefined) return
    this.shadow.use(this.#standing.reloads.config.plans, Date.now())
    this.changes.look(this.#standing, Date.now(), this.events)
  }

  /** Passes on what was reported and not passed on yet, and ends the events. */
  end(): void {
    this.close(Math.ceil(Date.now() / 1000))
    this.events.end()
    this.#ending.abort()
  }
}
