/** The state that all workers of a machine share, as their supervisor keeps it. */
import type { State } from '../contract.ts'
import { createMemoryCounter } from '../memory/counter.ts'
import { StoreClock } from '../store-clock.ts'
import { createIpcAuthority, type QuotaCalls } from './authority.ts'
import { createIpcBanStore, type BanCalls, type IpcBanStore } from './bans.ts'
import type { IpcCalls } from './calls.ts'
import { createSharedStrikes, type CounterCalls } from './counters.ts'

type QuotaOptions = Parameters<typeof createIpcAuthority>[0]

/** Bans wait for the supervisor's disk, and quota must not wait with them. The calls stay open, as they belong to the caller. */
export function openSupervisorState(
  options: QuotaOptions & { readonly calls: IpcCalls<QuotaCalls & CounterCalls> },
  banCalls: IpcCalls<BanCalls>,
): State & { readonly bans: IpcBanStore } {
  const clock = new StoreClock()
  return {
    authority: createIpcAuthority(options),
    embedded: undefined,
    bans: createIpcBanStore(banCalls, clock),
    clock,
    strikes: (withinMs) => createSharedStrikes(options.calls, createMemoryCounter(withinMs)),
    ready: () => Promise.resolve(),
    close: () => Promise.resolve(),
  }
}
