/** The small worlds that are explored whole. What each has is what it is to show; the longer form has more of it. */
import type { Replacement } from './copies.ts'
import type { SmallWorldOptions } from './small-world.ts'

/** A sixteenth of so small a minute would be no token ahead of need: here a lease may be all of it. */
export const scaled: readonly Replacement[] = [
  {
    name: 'leases of a small world',
    file: 'core/quota/lease-size.ts',
    from: 'MOST_OF_A_MINUTE = 1 / 16',
    to: 'MOST_OF_A_MINUTE = 1',
  },
  {
    name: 'no news of so small a limit',
    file: 'state/memory/transition.ts',
    from: 'ANNOUNCED_PART = 16',
    to: 'ANNOUNCED_PART = 1',
  },
]

export interface Explored extends SmallWorldOptions {
  /** More of the same, for the longer form. */
  readonly longer?: Partial<SmallWorldOptions>
}

const timer = { ms: 'timer', most: 1 } as const
const both = [{ ask: 0 }, { ask: 1 }, { passMs: 1100 }] as const
/** Both hold tokens ahead. */
const leased = [...both, { ask: 0 }, { ask: 1 }] as const
const one = [{ ask: 0 }, { passMs: 1100 }] as const
const small = { perMinute: 2, perDay: 3 }
const minutes = { perMinute: 3, perDay: 20 }
const messages = ['request lost', 'reply lost', 'notice lost', 'late', 'repeat'] as const

export const smallWorlds: readonly Explored[] = [
  { title: 'nothing goes wrong', limits: small, asks: 3, passes: [timer], longer: { asks: 5 } },
  {
    title: 'a minute ends',
    limits: small,
    asks: 2,
    endsAfterMs: 2000,
    passes: [timer, { ms: 1996, most: 1 }, { ms: 5, most: 1 }],
    longer: { asks: 4 },
  },
  {
    title: 'the day ends',
    limits: small,
    asks: 2,
    endsAfterMs: 2000,
    ends: 'day',
    passes: [timer, { ms: 2001, most: 1 }],
    longer: { asks: 4 },
  },
  {
    title: 'tokens are held ahead',
    limits: { perMinute: 5, perDay: 9 },
    opening: both,
    asks: 4,
    passes: [timer, { ms: 1100, most: 1 }],
    longer: { asks: 6 },
  },
  {
    title: 'limits are lowered',
    limits: { perMinute: 6, perDay: 9 },
    newLimits: { perMinute: 5, perDay: 9 },
    opening: leased,
    asks: 2,
    passes: [timer],
    longer: { asks: 5, passes: [timer, { ms: 1100, most: 1 }] },
  },
  {
    title: 'limits are raised',
    limits: { perMinute: 2, perDay: 4 },
    newLimits: { perMinute: 5, perDay: 5 },
    opening: leased,
    asks: 2,
    passes: [timer],
    longer: { asks: 5, passes: [timer, { ms: 1100, most: 1 }] },
  },
  {
    title: 'a process crashes',
    limits: minutes,
    opening: both,
    asks: 2,
    passes: [timer, { ms: 1100, most: 1 }],
    faults: { kinds: ['crash'], most: 1 },
    longer: { asks: 4, faults: { kinds: ['crash'], most: 2 } },
  },
  {
    title: 'the use is set back to 0',
    limits: { perMinute: 3, perDay: 4 },
    opening: both,
    asks: 1,
    refunds: 1,
    resets: 1,
    passes: [],
    longer: { asks: 3, resets: 2, passes: [timer], faults: { kinds: messages, most: 1 } },
  },
  {
    title: 'messages are lost, late or repeated',
    limits: small,
    asks: 2,
    endsAfterMs: 2000,
    passes: [timer, { ms: 2001, most: 1 }],
    faults: { kinds: messages, most: 1 },
    longer: { asks: 3, faults: { kinds: messages, most: 2 } },
  },
  {
    title: 'messages go wrong twice',
    limits: minutes,
    opening: both,
    asks: 2,
    passes: [timer],
    faults: { kinds: messages, most: 2 },
    longer: { asks: 3 },
  },
  {
    title: 'the store forgets',
    limits: minutes,
    opening: one,
    asks: 3,
    excess: 2,
    passes: [timer],
    faults: { kinds: ['loss'], most: 1 },
    longer: { asks: 4, faults: { kinds: ['loss'], most: 2 } },
  },
  {
    title: 'the store goes back to an old copy',
    limits: minutes,
    opening: both,
    asks: 3,
    excess: 2,
    passes: [timer],
    faults: { kinds: ['old copy'], most: 1 },
    longer: { asks: 4, faults: { kinds: ['old copy'], most: 2 } },
  },
  {
    title: 'a machine is suspended',
    limits: minutes,
    opening: both,
    asks: 2,
    endsAfterMs: 2000,
    passes: [timer],
    faults: { kinds: ['suspend'], most: 1 },
    longer: { asks: 4, faults: { kinds: ['suspend'], most: 2 } },
  },
]
