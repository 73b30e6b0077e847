/** Refuses even authenticated callers while the event loop is much too late; this costs no quota and asks no store. */
import type { Lessee } from '../quota/lessee.ts'
import type { Caller } from '../rules/credentials.ts'
import { OVERLOADED, type Shed } from '../rules/overload.ts'
import type { Refusal } from '../rules/refusals.ts'
import type { Judged } from './exchange.ts'
import { setQuota } from './take-quota.ts'

/** What the last look at the event loop says has to be refused. */
export interface Lateness {
  readonly shed: Shed
}

export function createShedLoad(load: Lateness, lessee: Lessee) {
  return function shedLoad(exchange: Judged, caller: Caller): Refusal | undefined {
    if (load.shed !== 'everything') return undefined
    setQuota(exchange, caller, lessee.known(caller.clientId, caller.limits))
    return OVERLOADED
  }
}
