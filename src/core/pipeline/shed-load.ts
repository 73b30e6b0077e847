/** Refuses even who is believed while the event loop is much too late; costs nothing, and asks nobody. */
import type { Lessee } from '../quota/lessee.ts'
import type { Caller } from '../rules/credentials.ts'
import { OVERLOADED, type Shed } from '../rules/overload.ts'
import type { Refusal } from '../rules/refusals.ts'
import type { Judged } from './exchange.ts'
import { tellQuota } from './take-quota.ts'

/** How late the event loop is, as it was last seen. */
export interface Lateness {
  readonly shed: Shed
}

export function createShedLoad(load: Lateness, lessee: Lessee) {
  return function shedLoad(exchange: Judged, caller: Caller): Refusal | undefined {
    if (load.shed !== 'everything') return undefined
    tellQuota(exchange, caller, lessee.known(caller.clientId, caller.limits))
    return OVERLOADED
  }
}
