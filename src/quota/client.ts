/** A client as this process serves it: its lease, the call under way and who waits for it. Types only. */
import type { Limits } from '../config/config.ts'
import type { Lease } from './lessee/lease.ts'
import type { QuotaView } from '../rules/quota-headers.ts'
import type { QuotaDecision } from './protocol.ts'

export interface Client {
  readonly lease: Lease
  isCalling: boolean
  /** The call under way, or the last one; never rejects. */
  inFlight: Promise<void> | undefined
  waiting: Waiter[]
  /** Requests that wait for a decision, those of the call under way included. */
  pending: number
  /** A call failed: until then others may hold what the authority has not heard of. */
  suspectUntilMs: number
  /** Answers in a row that said the authority had lost its data. */
  lostInARow: number
  /** Is in the list of those whose holds are looked after. */
  isHolder: boolean
  /** A reclaim that came while a call was under way. */
  reclaim: 'none' | 'short' | 'unknown'
  /** Until then a notice that the client was unknown is the echo of this process's own call. */
  echoUntilMs: number
}

/** A request that waits for a call. */
export type Waiter = {
  readonly limits: Limits
  /** Others were asked to give back what they hold, for this request among others: the next answer decides. */
  hasReclaimed?: boolean
} & (
  | { readonly kind: 'take'; resolve(decision: QuotaDecision): void }
  | { readonly kind: 'peek'; resolve(view: QuotaView | undefined): void }
)
