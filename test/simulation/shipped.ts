/** The quota as it is. */
import {
  createEmbeddedAuthority,
  createMemoryAuthority,
} from '../../src/quota/authorities/memory.ts'
import { createIpcAuthority } from '../../src/quota/authorities/ipc.ts'
import { ClientState, transition } from '../../src/quota/authorities/transition.ts'
import { createSteadyClock } from '../../src/rules/steady-clock.ts'
import { answerCalls, createIpcCalls } from '../../src/ipc/calls.ts'
import { Journal } from '../../src/sqlite/quota-journal.ts'
import { Lessee } from '../../src/quota/lessee/lessee.ts'
import { StoreBreaker } from '../../src/redis/breaker.ts'
import { bounded, isTimeout } from '../../src/redis/faults.ts'
import { look, reset } from '../../src/usage/client-counters.ts'

export const shipped = {
  answerCalls,
  bounded,
  ClientState,
  createEmbeddedAuthority,
  createIpcAuthority,
  createIpcCalls,
  createMemoryAuthority,
  createSteadyClock,
  isTimeout,
  Journal,
  Lessee,
  look,
  reset,
  StoreBreaker,
  transition,
}

/** What is simulated: the real thing, or a copy of it that was broken on purpose. */
export type Quota = typeof shipped
