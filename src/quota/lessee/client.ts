/** A client as this process serves it: its lease, the call under way and the requests that wait for it. */
import type { Limits } from '../../config/config.ts'
import type { Lease } from './lease.ts'
import type { Notice, QuotaDecision } from '../protocol.ts'

export class Client {
  /** See Lease for its writers. */
  readonly lease: Lease
  /** The call under way, or about to be repeated; never rejects. Written by lease-calls.ts. */
  inFlight: Promise<void> | undefined
  /** Requests that arrived during the call; the next one is for them. Written by lease-calls.ts. */
  waiting: Waiter[] = []
  /** Requests that wait for a decision, those of the call under way included. Written by lessee.ts. */
  pending = 0
  /** A call failed: until then others may hold what the authority has not heard of. Written by outage.ts. */
  suspectUntilMs = -Infinity
  /** Replies in a row that said the authority had lost its data. Written by authority-calls.ts; lease-calls.ts resets it. */
  lostInARow = 0
  /** Is in the list of those whose tokens are looked after. Written by holdings.ts. */
  isHolder = false
  /** Requests are refused somewhere: what is handed back here goes back at once. Written by holdings.ts and authority-calls.ts. */
  isWanted = false
  /** Notices that came while a call was under way, each once, the latest last. Written by holdings.ts. */
  deferred: readonly Notice[] = []

  constructor(lease: Lease) {
    this.lease = lease
  }

  get isCalling(): boolean {
    return this.inFlight !== undefined
  }
}

/** A request that waits for a call. */
export interface Waiter {
  readonly limits: Limits
  resolve(decision: QuotaDecision): void
}
