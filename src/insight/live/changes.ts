/** What became of store, backends and configuration since the second before. */
import type { Overview } from '../api/live.ts'
import type { Ban } from '../api/state.ts'
import type { Config } from '../../config/config.ts'
import { isBanned } from '../../core/rules/ban-policy.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { Events } from './events.ts'
import type { BackendHealth } from '../../core/backends/health.ts'

/** What can be asked at any time of how it stands. */
export interface Standing {
  store(): {
    readonly available: boolean
    readonly cause: string | undefined
    readonly refusal: string | undefined
  }
  backends(): readonly BackendHealth[]
  readonly reloads: {
    readonly config: Config
    readonly takenAtMs: number
    readonly counts: { readonly refused: number }
    readonly fault: string | undefined
  }
}

export interface Watched extends Standing {
  readonly bans: {
    /** Running and ended ones. */
    readonly all: ReadonlyMap<string, BanRecord>
    /** The store's Unix time, by which they begin and end. */
    readonly nowMs: number
  }
  shown(key: string, ban: BanRecord): Ban
}

const KEPT_RELOADS_MS = 900_000
/** A ban of another gateway may have begun so long before this one knows of it. */
const LATE_BAN_MS = 60_000

export class ChangeWatch {
  /** null: the store is not away. Written by look, as are all. */
  storeAwaySince: string | null = null
  /** Of the latest. */
  reloadRefusedAt: string | null = null
  reloads: Overview['reloads'] = []
  #takenAtMs = Infinity
  #refused = 0
  /** By key, when that began which was seen last; undefined: nobody wants to hear of them. */
  #bans: { readonly fromMs: number; readonly seen: Map<string, number> } | undefined
  readonly #backends = new Map<string, BackendHealth['state']>()

  look(standing: Watched, nowMs: number, events: Events): void {
    const at = new Date(nowMs).toISOString()
    const { available, cause = null } = standing.store()
    if (available !== (this.storeAwaySince === null)) {
      this.storeAwaySince = available ? null : at
      events.tell('store', { at, available, cause: available ? null : cause })
    }
    for (const { name, state, fault = null } of standing.backends()) {
      if (state !== (this.#backends.get(name) ?? 'up'))
        events.tell('backend', { at, name, state, cause: fault })
      this.#backends.set(name, state)
    }
    this.#lookAtReloads(standing.reloads, nowMs, events)
    if (events.isWanted('ban')) this.#lookAtBans(standing, events)
    else this.#bans = undefined
  }

  #lookAtReloads(
    { config, takenAtMs, counts, fault }: Standing['reloads'],
    nowMs: number,
    events: Events,
  ): void {
    const { revision } = config
    this.reloads = this.reloads.filter(({ at }) => Date.parse(at) > nowMs - KEPT_RELOADS_MS)
    if (takenAtMs > this.#takenAtMs) {
      const at = new Date(takenAtMs).toISOString()
      this.reloads = [...this.reloads, { at, revision }]
      events.tell('reload', { at, revision, refused: null })
    }
    if (counts.refused > this.#refused) {
      this.reloadRefusedAt = new Date(nowMs).toISOString()
      events.tell('reload', { at: this.reloadRefusedAt, revision, refused: fault ?? null })
    }
    this.#takenAtMs = takenAtMs
    this.#refused = counts.refused
  }

  /** Those that were imposed since the look before; of the first look all are old. There may be 100,000, so nothing is made of those that are. */
  #lookAtBans({ bans, shown }: Watched, events: Events): void {
    const before = this.#bans
    const { nowMs } = bans
    const { seen, fromMs } = (this.#bans ??= { seen: new Map(), fromMs: nowMs - LATE_BAN_MS })
    for (const [key, ban] of bans.all) {
      if (ban.startedMs < fromMs || seen.get(key) === ban.startedMs) continue
      seen.set(key, ban.startedMs)
      if (before !== undefined && isBanned(ban, nowMs)) events.tell('ban', shown(key, ban))
    }
    if (seen.size > bans.all.size)
      for (const key of seen.keys()) if (!bans.all.has(key)) seen.delete(key)
  }
}
