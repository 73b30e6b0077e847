/** The quota as it is. */
import * as calls from '../../src/ipc/calls.ts'
import * as ipc from '../../src/quota/authorities/ipc.ts'
import * as memory from '../../src/quota/authorities/memory.ts'
import * as transition from '../../src/quota/authorities/transition.ts'
import * as lessee from '../../src/quota/lessee/lessee.ts'
import * as breaker from '../../src/redis/breaker.ts'
import * as faults from '../../src/redis/faults.ts'
import * as steadyClock from '../../src/rules/steady-clock.ts'
import * as journal from '../../src/sqlite/quota-journal.ts'
import * as counters from '../../src/usage/client-counters.ts'

const quota = { ...calls, ...ipc, ...memory, ...transition, ...lessee, ...journal }
export const shipped = { ...quota, ...breaker, ...faults, ...steadyClock, ...counters }

/** What is simulated: the real thing, or a copy of it that was broken on purpose. */
export type Quota = typeof shipped
