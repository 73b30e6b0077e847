/** All state in the memory of this process. */
import { createMemoryBanStore } from '../bans.ts'
import { embeddedHealth, type Claims, type OwnState, type UnsavedCounters } from '../contract.ts'
import { createEmbeddedCounters } from '../counters.ts'
import type { NoticeListener } from '../quota.ts'
import { StoreClock } from '../store-clock.ts'
import { createMemoryUsageStore } from '../usage.ts'
import { createEmbeddedAuthority, type EmbeddedAuthority } from './authority.ts'
import { createMemoryCounter } from './counter.ts'

/** Nothing outlasts the process. onForgotten: called the first time that counters of a client are forgotten for lack of room. */
export function openMemoryState(onForgotten: (lost: UnsavedCounters) => void): OwnState {
  return embeddedState({
    authority: createEmbeddedAuthority({ clock: { epochMs: () => Date.now() }, onForgotten }),
    bans: createMemoryBanStore(),
    usage: createMemoryUsageStore(),
  })
}

/** The claims of a gateway that shares its store with no other. */
export const noClaims: Claims = {
  take: () => Promise.resolve('own'),
  done: () => Promise.resolve(),
}

/** State that no other gateway shares, with the parts that may outlast the process. */
export function embeddedState({
  authority,
  ...kept
}: Pick<OwnState, 'bans' | 'usage'> & { readonly authority: EmbeddedAuthority }) {
  // Listeners receive what an operator does; a supervisor itself passes on what calls cause.
  const listeners: NoticeListener[] = []
  const onNotice = (listener: NoticeListener): void => void listeners.push(listener)
  const notify: NoticeListener = (...news) => listeners.forEach((listener) => listener(...news))
  const embedded = Object.assign(authority, { onNotice })
  return {
    ...kept,
    authority: embedded,
    embedded,
    clock: new StoreClock(),
    counters: createEmbeddedCounters(authority, notify),
    strikes: createMemoryCounter,
    claims: noClaims,
    health: embeddedHealth,
    ready: () => Promise.resolve(),
    close: () => authority.close(),
  } satisfies OwnState
}
