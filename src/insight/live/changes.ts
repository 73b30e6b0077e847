/** Publishes what has changed in the store, backends, configuration and bans since the last second. */
import type { Ban } from '../api/live.ts'
import type { Config } from '../../config/config.ts'
import { isBanned } from '../../core/rules/ban-policy.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { StoreHealth } from '../../state/contract.ts'
import type { Events } from './events.ts'
import type { BackendHealth } from '../../core/backends/backend.ts'

/** Current state of the store, the backends and reloads. */
export interface CurrentState {
  store(): Health
  backends(): readonly BackendHealth[]
  readonly reloads: {
    readonly config: Config
    readonly takenAtMs: number
    readonly counts: { readonly refused: number }
    /** Why the latest reload was refused; undefined: it was not. */
    readonly fault: string | undefined
  }
}

export interface Watched extends CurrentState {
  readonly bans: {
    /** All known bans by key, including those that have ended. */
    readonly all: ReadonlyMap<string, BanRecord>
    /** The store's Unix time, by which bans begin and end. */
    readonly nowMs: number
  }
  shown(key: string, ban: BanRecord): Ban
}

/** A state, and since when it holds; sinceMs: undefined: since before the first look. */
interface Held<State> {
  readonly state: State
  readonly sinceMs: number | undefined
}

const KEPT_RELOADS_MS = 900_000
/** Longest time after its start that another gateway's ban becomes known here. */
const LATE_BAN_MS = 60_000

export class ChangeWatch {
  /** Start of the current outage; null: the store is available. Written by look, as are most fields. */
  storeAwaySince: string | null = null
  /** How the store is; undefined before the first look. */
  store: Held<ReturnType<typeof storeStateOf>> | undefined
  /** How often it has left `up`. */
  storeOutages = 0
  reloadRefusedAt: string | null = null
  /** Reloads in the last 15 minutes. */
  reloads: readonly { readonly at: string; readonly revision: string }[] = []
  /** The configuration that the files differed from when they were last looked at. Written by who looks at them. */
  outdated: Config | undefined
  #takenAtMs = Infinity
  #refused = 0
  /** Start of the last seen ban of each key; undefined: nobody subscribes to bans. */
  #bans: { readonly fromMs: number; readonly seen: Map<string, number> } | undefined
  #backends: ReadonlyMap<string, Held<BackendHealth['state']>> = new Map()

  look(standing: Watched, nowMs: number, events: Events): void {
    const at = new Date(nowMs).toISOString()
    const health = standing.store()
    const { available, cause = null } = health
    const state = storeStateOf(health)
    if (this.store?.state === 'up' && state !== 'up') this.storeOutages += 1
    this.store = held(this.store, state, nowMs)
    if (available !== (this.storeAwaySince === null)) {
      this.storeAwaySince = available ? null : at
      events.publish('store', { at, available, cause: available ? null : cause })
    }
    this.#lookAtBackends(standing.backends(), nowMs, events)
    this.#lookAtReloads(standing, nowMs, events)
    if (events.isWanted('ban')) this.#lookAtBans(standing, events)
    else this.#bans = undefined
  }

  /** Unix time in ms of the look since which the backend has been as it is; undefined: since before the first. */
  backendSinceMs(name: string): number | undefined {
    return this.#backends.get(name)?.sinceMs
  }

  #lookAtBackends(backends: readonly BackendHealth[], nowMs: number, events: Events): void {
    const before = this.#backends
    this.#backends = new Map(
      backends.map(({ name, state }) => [name, held(before.get(name), state, nowMs)]),
    )
    for (const { name, state, fault: cause = null } of backends)
      if (state !== (before.get(name)?.state ?? 'up'))
        events.publish('backend', { at: new Date(nowMs).toISOString(), name, state, cause })
  }

  #lookAtReloads({ reloads }: Watched, nowMs: number, events: Events): void {
    const { config, takenAtMs, counts, fault } = reloads
    const { revision } = config
    this.reloads = this.reloads.filter(({ at }) => Date.parse(at) > nowMs - KEPT_RELOADS_MS)
    if (takenAtMs > this.#takenAtMs) {
      const at = new Date(takenAtMs).toISOString()
      this.reloads = [...this.reloads, { at, revision }]
      events.publish('reload', { at, revision, refused: null })
    }
    if (counts.refused > this.#refused) {
      this.reloadRefusedAt = new Date(nowMs).toISOString()
      events.publish('reload', { at: this.reloadRefusedAt, revision, refused: fault ?? null })
    }
    this.#takenAtMs = takenAtMs
    this.#refused = counts.refused
  }

  /** Publishes bans imposed since the last look; the first look publishes none. There may be 100,000 old ones, so none of them is formatted. */
  #lookAtBans({ bans, shown }: Watched, events: Events): void {
    const before = this.#bans
    const { nowMs } = bans
    const { seen, fromMs } = (this.#bans ??= { seen: new Map(), fromMs: nowMs - LATE_BAN_MS })
    for (const [key, ban] of bans.all) {
      if (ban.startedMs < fromMs || seen.get(key) === ban.startedMs) continue
      seen.set(key, ban.startedMs)
      if (before !== undefined && isBanned(ban, nowMs)) events.publish('ban', shown(key, ban))
    }
    if (seen.size > bans.all.size)
      for (const key of seen.keys()) if (!bans.all.has(key)) seen.delete(key)
  }
}

type Health = Pick<StoreHealth, 'available' | 'cause' | 'refusal'>

export const storeStateOf = ({ available, refusal }: Health): 'up' | 'away' | 'refused' =>
  refusal !== undefined ? 'refused' : available ? 'up' : 'away'

function held<State>(before: Held<State> | undefined, state: State, nowMs: number): Held<State> {
  const isAsBefore = before === undefined || before.state === state
  return { state, sinceMs: isAsBefore ? before?.sinceMs : nowMs }
}
