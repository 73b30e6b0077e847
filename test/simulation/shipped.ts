/** The quota as it is. */
import * as calls from '../../src/state/calls.ts'
import * as ipc from '../../src/state/supervisor/home.ts'
import * as memory from '../../src/state/memory/authority.ts'
import * as transition from '../../src/state/memory/transition.ts'
import * as lessee from '../../src/core/quota/lessee.ts'
import * as breaker from '../../src/state/redis/breaker.ts'
import * as faults from '../../src/state/redis/faults.ts'
import * as timers from '../../src/state/timers.ts'
import * as steadyClock from '../../src/core/rules/steady-clock.ts'
import * as journal from '../../src/state/sqlite/quota-journal.ts'
import * as counters from '../../src/state/counters.ts'

const quota = { ...calls, ...ipc, ...memory, ...transition, ...lessee, ...journal }
export const shipped = { ...quota, ...breaker, ...faults, ...timers, ...steadyClock, ...counters }

/** What is simulated: the real thing, or a copy of it that was broken on purpose. */
export type Quota = typeof shipped
