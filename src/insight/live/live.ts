/** What this gateway sees at the moment, over all its processes; bounded, and forgotten when it ends. */
import type { Tick } from '../api/live.ts'
import { ChangeWatch, type Watched } from './changes.ts'
import { Events } from './events.ts'
import { everySecond } from './every-second.ts'
import { SeenClients } from './seen-clients.ts'
import type { Second } from './second.ts'
import { Seconds } from './seconds.ts'
import { DeprecatedCallers } from '../../core/record/deprecated-callers.ts'
import { ShadowCounts } from '../../core/record/shadow-counts.ts'
import { TopClients } from './top.ts'

export type SecondListener = (second: Second) => void

export class Live {
  readonly startedAtMs = Date.now()
  readonly seconds = new Seconds()
  readonly top = new TopClients()
  readonly clients = new SeenClients()
  readonly deprecated = new DeprecatedCallers()
  readonly shadow = new ShadowCounts()
  readonly changes = new ChangeWatch()
  readonly events = new Events()
  /** Of the last second of which something was heard. Written by close. */
  latest: Tick | null = null
  readonly #ending = new AbortController()
  /** Aborted with the end. */
  readonly ended = this.#ending.signal
  readonly #listeners: SecondListener[] = []
  #standing: Watched | undefined

  /** Of one process, and no second twice. */
  add(second: Second): void {
    this.seconds.add(second)
    if (second.deprecated !== undefined) this.deprecated.add(second.deprecated)
    if (second.shadow !== undefined) this.shadow.add(second.shadow, second.at * 1000)
  }

  /** Told of each second that is over, once: what all processes have said of it, the rows as they came. */
  onSecond(listener: SecondListener): void {
    this.#listeners.push(listener)
  }

  /** Looked at once a second. */
  watch(standing: Watched): void {
    this.#standing = standing
  }

  /** All that was heard of the seconds up to this one is passed on. */
  close(upTo: number): void {
    for (const second of this.seconds.close(upTo)) {
      this.top.add(second.at, second.rows)
      this.clients.add(second.at, second.rows)
      for (const listener of this.#listeners) listener(second)
      if (this.seconds.latest === undefined) continue
      this.latest = { ...this.seconds.latest, untold: this.events.second() }
      this.events.tell('tick', this.latest)
    }
    if (this.#standing === undefined) return
    this.shadow.use(this.#standing.reloads.config.plans, Date.now())
    this.changes.look(this.#standing, Date.now(), this.events)
  }

  /** All that was heard is passed on, and nobody waits for more. */
  end(): void {
    this.close(Math.ceil(Date.now() / 1000))
    this.events.end()
    this.#ending.abort()
  }
}

/** take: what happened in this process since it was called last. Call what it returns when that was the last. */
export function sampleSeconds(take: (at: number) => Second, live: Live): () => void {
  const tell = (at: number): void => {
    live.add(take(at))
    live.close(at)
  }
  const stop = everySecond(tell)
  return () => {
    stop()
    live.add(take(Math.floor(Date.now() / 1000)))
    live.end()
  }
}
