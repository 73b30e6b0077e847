/** Which fault comes when: drawn from the seed alone. */
import { createChance, type Chance } from '../simulation/virtual-time.ts'
import { faultKinds, type FaultKind } from './events.ts'

export interface Planned {
  readonly kind: FaultKind
  /** After the start; later if the fault before it has not ended. */
  readonly atMs: number
  readonly forMs: number
  /** The first of its kind comes even when all takes longer than planned. */
  readonly mustCome: boolean
}

/** How long each lasts, in ms. A store that is away for 3 s is failed over. What ends by itself takes about so long. */
const lengths: Readonly<Record<FaultKind, readonly [min: number, max: number]>> = {
  'store frozen': [300, 1_800],
  'store restarted': [200, 1_500],
  'store failed over': [6_000, 6_000],
  'gateway frozen': [500, 3_000],
  'worker killed': [2_000, 2_000],
  'gateway killed': [500, 2_000],
  'gateway restarted': [4_000, 4_000],
  'backend hangs': [6_000, 8_000],
  'backend dies': [1_000, 5_000],
  'backend breaks': [1_000, 3_000],
  'backend slow': [1_000, 3_000],
  'backend busy': [1_000, 3_000],
  flood: [2_000, 4_000],
  'slow crowd': [4_000, 6_000],
}
/** Between two faults of a line. */
export const PAUSE_MS = [1_000, 3_000] as const

/**
 * Two lines of faults that run beside each other: of store and gateways, and of backends and clients. Each deals
 * its kinds in an order of chance, all of them before any comes again.
 */
export function planFaults(seed: number, forMs: number): Planned[][] {
  const { store, gateway, backend, clients } = faultKinds
  return [
    [...store, ...gateway],
    [...backend, ...clients],
  ].map((kinds, line) => planLine(kinds, forMs, createChance(seed * 2 + line)))
}

function planLine(kinds: readonly FaultKind[], forMs: number, chance: Chance): Planned[] {
  const planned: Planned[] = []
  let atMs = Math.round(chance.between(...PAUSE_MS))
  let deck: FaultKind[] = []
  for (;;) {
    if (deck.length === 0) deck = shuffled(kinds, chance)
    const kind = deck.pop() ?? chance.pick(kinds)
    const lengthMs = Math.round(chance.between(...lengths[kind]))
    const mustCome = planned.length < kinds.length
    if (!mustCome && atMs + lengthMs > forMs) return planned
    planned.push({ kind, atMs, forMs: lengthMs, mustCome })
    atMs += lengthMs + Math.round(chance.between(...PAUSE_MS))
  }
}

function shuffled<Item>(items: readonly Item[], chance: Chance): Item[] {
  return items
    .map((item) => ({ item, order: chance.next() }))
    .sort((a, b) => a.order - b.order)
    .map(({ item }) => item)
}
