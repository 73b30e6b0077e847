/**
 * The stages of a configuration on state of their own: of one process, in memory, on a clock of the caller's. The code that
 * decides requests thus answers questions about them, and changes nothing. No sockets, no files, no timers that last.
 */
import { BanBook } from '../../core/bans/ban-book.ts'
import { createMemoryBanStore, type BanRecord } from '../../state/bans.ts'
import type { Config, Limits } from '../../config/config.ts'
import { createAddressCounter } from '../../state/memory/addresses.ts'
import { createMemoryCounter } from '../../state/memory/counter.ts'
import type { Policy } from '../../core/pipeline/exchange.ts'
import { createEmbeddedAuthority } from '../../state/memory/authority.ts'
import { Lessee } from '../../core/quota/lessee.ts'
import type { Authority } from '../../state/quota.ts'
import type { Timers } from '../../state/timers.ts'
import { perWindow, type PerWindow } from '../../config/time.ts'
import { createPolicy } from './request-policy.ts'

interface ScratchOptions {
  readonly config: Config
  /** Unix time in ms at which requests are decided. */
  readonly now: () => number
  /** The store's Unix time in ms, by which use is counted and bans end. Default: the same. */
  readonly countedAtMs?: () => number
}

const NO_TIMERS: Timers = { every: () => () => undefined, after: () => Promise.resolve() }
const nothing = (): void => undefined
const NO_TALLY: Policy['tally'] = { admitted: nothing, refused: nothing, refunded: nothing }
const NOTHING = {
  keyRing: { find: () => undefined },
  verifier: undefined,
  load: { shed: 'nothing' },
} as const

/** Its policy knows no keys and no tokens, and sheds nothing. */
export function createScratch({ config, now, countedAtMs = now }: ScratchOptions) {
  // No client is dropped: one that is forgotten would have all of its day again.
  const clock = { epochMs: countedAtMs }
  const authority = createEmbeddedAuthority({ clock, maxClients: Infinity })
  const lessee = new Lessee({
    authority,
    processId: 'scratch',
    clock: { epochMs: now, nowMs: now },
    outage: config.store.onOutage,
    lease: 'off',
    timers: NO_TIMERS,
  })
  const bans = createBans(config, countedAtMs)
  const addresses = createAddressCounter({ now })
  let turnsTaken = 0
  // No request waits for others of its client.
  const turn = { take: (limit: number) => turnsTaken < limit, giveBack: nothing }
  const turns = { of: () => turn }
  const charges = { lessee, tally: NO_TALLY, timestamps: { next: now } }
  const parts = { ...charges, ...NOTHING, epochMs: now, bans, addresses, turns }
  return {
    policy: createPolicy(config, parts),
    /** Sets the state; only the owner of the scratch calls these. */
    seed: {
      use: createSeedUse(authority, countedAtMs),
      ban: (keyId: string, ban: BanRecord) => void bans.merge(keyId, ban),
      turns: (taken: number) => void (turnsTaken = taken),
      /** Adds requests of an address in the current minute. */
      anonymous: (address: string, points: number) => void addresses.add({ address, points }),
    },
    close: () => bans.close(),
  }
}

function createSeedUse(authority: Pick<Authority, 'take'>, epochMs: () => number) {
  let seeds = 0
  /** Adds use in the current windows. */
  return (client: string, limits: Limits, used: PerWindow<number>): void => {
    const statements = perWindow(({ name, lengthMs }) => ({
      index: Math.floor(epochMs() / lengthMs),
      used: used[name],
      held: used[name],
    }))
    // This process has forgotten its earlier statement, which therefore stays counted.
    const since = seeds++
    const process = { process: 'seed', sequence: seeds, since }
    void authority.take({ client, ...process, limits, ...statements, need: 0, want: 0 })
  }
}

function createBans(config: Config, now: () => number): BanBook {
  return new BanBook({
    policy: config.bans,
    // No other process makes bans.
    store: { ...createMemoryBanStore(), watch: nothing },
    counter: createMemoryCounter(config.bans.withinMs),
    observer: { strike: nothing, banned: nothing, storeLost: nothing, storeBack: nothing },
    // Time stands still while a request is decided.
    clock: { nowMs: now, at: now },
  })
}
