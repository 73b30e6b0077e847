/**
 * Decides the requests of this process from the client's lease, or through a call to the authority where the lease has no answer.
 * It looks after the tokens that this process holds: it returns idle ones, and those that others wait for according to notices,
 * and restates what the authority may not know. `uncertain` of the calls and `#holders` are the leases that need attention.
 */
import { setImmediate as turn } from 'node:timers/promises'
import type { Limits, OutageMode } from '../../config/config.ts'
import { LeaseCalls, type LeaseCallsOptions } from './lease-calls.ts'
import { Lease } from './lease.ts'
import { Membership } from './membership.ts'
import { Outage } from './outage.ts'
import type { Admission, QuotaDecision, QuotaView } from './decision.ts'
import type { Notice } from '../../state/quota.ts'
import { RecencyTable } from '../../state/memory/recency-table.ts'
import { systemTimers, type Timers } from '../../state/timers.ts'

const SWEEP_EVERY_MS = 100
/** Each holder is reviewed once in about so many sweeps, so that no sweep is long. */
const SWEEPS_PER_ROUND = 5
/** Tokens of a client that is idle for so long are returned, so that others report the true remainder, and a crash loses less. */
const IDLE_BEFORE_RETURN_MS = 6_000
const SETTLING_AT_ONCE = 64
/** States what was used and returns what is in hand. */
const RETURNING = { returns: true }
/** A client idle for so long is forgotten; the authority keeps its counts. */
const IDLE_BEFORE_FORGETTING_MS = 3_600_000
const FORGET_EVERY_MS = 60_000
/** A loss of data shows once for each client it affects; one restatement within this time serves them all. */
const RESTATES_EVERY_MS = 1_000
/** Enough time for tens of thousands of leases; a store that is away ends the drain sooner. */
const DRAIN_AT_MOST_MS = 2000

export interface LesseeOptions extends Pick<
  LeaseCallsOptions,
  'authority' | 'processId' | 'clock' | 'lease' | 'observe' | 'onClockBack' | 'onTime'
> {
  /** Mode of decision while the authority is away. */
  readonly outage: OutageMode
  /** How many processes share the limits until the authority has named them, and the number of this one, from 1. Default 1. */
  readonly processes?: number
  readonly number?: number | undefined
  readonly timers?: Timers
  /** Number of clients beyond which those not seen lately are forgotten. Default 100,000. */
  readonly maxClients?: number
}

/** The only part of the quota that pipeline stages use. */
export class Lessee {
  readonly #options: LesseeOptions
  readonly #leases: RecencyTable<Lease>
  readonly #membership: Membership
  readonly #outage: Outage
  readonly #calls: LeaseCalls
  /** Leases with tokens in hand or unstated use. */
  readonly #holders = new Set<Lease>()
  /** The round of reviews under way, which many sweeps share. */
  #round = this.#holders.values()
  /** Calls of #settleUncertain under way. */
  #settling = 0
  readonly #stops: readonly (() => void)[]
  /** When this process last began to restate all its use. */
  #restatedMs = -Infinity
  /** The time for a drain is over. */
  #isDrained = false

  constructor(options: LesseeOptions) {
    const { authority, processId, clock, observe, timers = systemTimers } = options
    const { processes = 1, number = 1, outage: mode } = options
    this.#options = options
    this.#leases = new RecencyTable({
      maxEntries: options.maxClients ?? 100_000,
      mayDrop: (lease) => this.#isIdle(lease),
    })
    this.#membership = new Membership({ authority, timers, processId, processes, number })
    this.#outage = new Outage({ mode, membership: this.#membership, observe })
    this.#calls = new LeaseCalls({
      ...options,
      timers,
      outage: this.#outage,
      onAnswered: (lease) => this.#watch(lease),
      onLoss: () => this.#recoverLoss(),
    })
    this.#stops = [
      timers.every(SWEEP_EVERY_MS, () => {
        this.#settleUncertain()
        this.#review()
      }),
      timers.every(FORGET_EVERY_MS, () => this.#forgetIdle()),
    ]
    authority.onReturn?.(() => this.#resume())
    const follow = (isFlowing: boolean): void => this.#calls.follow(isFlowing)
    authority.onNotice?.((client, notice, by, totals) => {
      const lease = this.#leases.peek(client)
      const isOwn = notice === 'unknown' && by === processId
      if (lease === undefined || isOwn) return
      if (totals !== undefined)
        for (const window of lease.windows) window.note(totals[window.kind.name], by === processId)
      this.#handleNotice(lease, notice)
      if (notice === 'unknown' && lease.knowsDay(clock.nowMs())) this.#recoverLoss()
    }, follow)
  }

  /** Charges one request in all windows or in none. Returns at once whenever the answer is known. Never throws or rejects. */
  take(id: string, limits: Limits): QuotaDecision | Promise<QuotaDecision> {
    const nowMs = this.#options.clock.nowMs()
    const lease = this.#leaseOf(id, limits, nowMs)
    lease.pace.seen += 1
    const known = lease.decide(limits, nowMs)
    if (known !== undefined) {
      if (known.kind === 'admitted' && !lease.isCalling) {
        const ahead = lease.isRunningOut()
        if (ahead || lease.isOutdated()) this.#calls.call(lease, { ahead })
      }
      return this.#observed(known)
    }
    const decision = this.#outage.refusal(lease, limits, nowMs) ?? this.#calls.take(lease, limits)
    if (!(decision instanceof Promise)) return this.#observed(decision)
    return decision.then((decided) => this.#observed(decided))
  }

  /** Returns the client's standing without a charge; undefined where the authority is away or does not answer. Never rejects. */
  peek(id: string, limits: Limits): QuotaView | undefined | Promise<QuotaView | undefined> {
    const nowMs = this.#options.clock.nowMs()
    const lease = this.#leaseOf(id, limits, nowMs)
    if (lease.isCurrent(limits, nowMs) && !lease.isUncertain) return lease.view(limits, nowMs)
    if (!lease.isCalling && !this.#calls.call(lease, {})) return undefined
    const view = (): QuotaView | undefined =>
      lease.isUncertain ? undefined : lease.view(limits, this.#options.clock.nowMs())
    return lease.inFlight?.then(view) ?? view()
  }

  /** Returns the client's standing without asking another process; undefined where this one does not know it. */
  known(id: string, limits: Limits): QuotaView | undefined {
    if (this.#options.authority.isEmbedded) {
      const view = this.peek(id, limits)
      return view instanceof Promise ? undefined : view
    }
    const nowMs = this.#options.clock.nowMs()
    const lease = this.#leases.peek(id)
    if (lease === undefined || lease.isUncertain) return undefined
    return lease.isCurrent(limits, nowMs) ? lease.view(limits, nowMs) : undefined
  }

  /** Refunds the charge of a request that never reached a backend, in those of its windows that still run. */
  refund(id: string, admission: Admission): void {
    const lease = this.#leases.get(id)
    if (lease === undefined) return
    for (const window of lease.windows) window.refund(admission.charged[window.kind.name])
    if (this.#options.authority.isEmbedded && !lease.isCalling) this.#calls.call(lease, RETURNING)
    else this.#watch(lease)
  }

  /** Hands everything held back to the authority; takes at most two seconds. */
  async drain(): Promise<void> {
    const { timers = systemTimers } = this.#options
    for (const stop of this.#stops) stop()
    const limit = timers.after(DRAIN_AT_MOST_MS).then(() => (this.#isDrained = true))
    await Promise.race([this.#settleAll(timers), limit])
    this.#membership.leave()
  }

  #leaseOf(client: string, limits: Limits, nowMs: number): Lease {
    const lease =
      this.#leases.get(client) ??
      this.#leases.add(client, new Lease(client, limits, nowMs, this.#calls))
    lease.limits = limits
    lease.lastUsedMs = nowMs
    return lease
  }

  #observed(decision: QuotaDecision): QuotaDecision {
    const window = decision.kind === 'refused' ? decision.window : 'none'
    this.#options.observe?.decision?.(window, decision.kind)
    return decision
  }

  /** A call for this lease has ended, or a charge was refunded: there may be tokens in hand or unstated use. */
  #watch(lease: Lease): void {
    const { deferred } = lease
    if (deferred.length > 0) lease.deferred = []
    for (const notice of deferred) this.#handleNotice(lease, notice)
    if (lease.isHolding()) this.#holders.add(lease)
  }

  /** Handles a notice that the authority has sent to all processes. */
  #handleNotice(lease: Lease, notice: Notice): void {
    // The refusals end even during a call, so that new requests wait for tokens together with those that wait already.
    if (notice === 'free' || notice === 'reset') lease.forgetRefusals()
    if (lease.isCalling) {
      lease.deferred = [...lease.deferred.filter((other) => other !== notice), notice]
      return
    }
    if (notice !== 'unknown') lease.isWanted = notice === 'short'
    const isAsked = notice === 'unknown' || notice === 'reset'
    const isForgotten = isAsked && lease.knowsDay(this.#options.clock.nowMs())
    const isHolding = notice !== 'free' && lease.isHolding()
    if (isHolding || isForgotten) this.#calls.call(lease, RETURNING)
  }

  /** States the use of all uncertain leases, a bounded number at a time. */
  #settleUncertain(): void {
    for (const lease of this.#calls.uncertain) {
      if (this.#settling >= SETTLING_AT_ONCE) return
      if (lease.isCalling) continue
      if (!this.#calls.call(lease, RETURNING)) return
      this.#settling += 1
      void Promise.resolve(lease.inFlight).then(() => {
        this.#settling -= 1
        // After a failure the next sweep tries again; a retry at once would cause a storm of calls.
        if (!lease.isUncertain) this.#settleUncertain()
      })
    }
  }

  /** States and returns everything; resolves when the authority has answered for all leases, or is away. */
  async #settleAll(timers: Timers): Promise<void> {
    const underWay = () =>
      Array.from(this.#leases.entries(), ([, { inFlight }]) => inFlight ?? []).flat()
    // A call may be followed by the next one at once, for requests that came meanwhile.
    for (let calls = underWay(); calls.length > 0 && !this.#isDrained; calls = underWay()) {
      await Promise.all(calls)
      // A request that was cut off while it waited hands its charge back in the turn in which it gets it.
      await turn()
    }
    const queue = [...new Set([...this.#calls.uncertain, ...this.#holders])].values()
    const isOpen = (lease: Lease): boolean => lease.isUncertain || lease.isHolding()
    const worker = async (): Promise<void> => {
      for (const lease of queue)
        for (;;) {
          while (lease.isCalling) await lease.inFlight
          if (this.#isDrained || !isOpen(lease) || !this.#calls.call(lease, RETURNING)) break
          await lease.inFlight
          // An authority that was late is asked again: what it takes for held would be nobody's until the window ends.
          if (isOpen(lease)) await timers.after(SWEEP_EVERY_MS)
        }
    }
    await Promise.all(Array.from({ length: SETTLING_AT_ONCE }, worker))
  }

  /** Returns the tokens of idle clients, and removes leases that hold nothing. */
  #review(): void {
    const nowMs = this.#options.clock.nowMs()
    for (let left = Math.ceil(this.#holders.size / SWEEPS_PER_ROUND); left > 0; left--) {
      const { value: lease } = this.#round.next()
      if (lease === undefined) return void (this.#round = this.#holders.values())
      if (!lease.isHolding()) {
        this.#holders.delete(lease)
        continue
      }
      const dueAfterMs = lease.isWanted ? 0 : IDLE_BEFORE_RETURN_MS
      if (lease.isCalling || nowMs - lease.lastUsedMs < dueAfterMs) continue
      if (!this.#calls.call(lease, RETURNING)) return
    }
  }

  #isIdle(lease: Lease): boolean {
    return !lease.isCalling && !this.#holders.has(lease) && !lease.isUncertain
  }

  #forgetIdle(): void {
    const nowMs = this.#options.clock.nowMs()
    for (const [id, lease] of this.#leases.entries())
      if (nowMs - lease.lastUsedMs >= IDLE_BEFORE_FORGETTING_MS && this.#isIdle(lease))
        this.#leases.delete(id)
  }

  /** Handles a loss of data. No shares were spent, as the authority answers; it waits itself for the statements it has lost. */
  #recoverLoss(): void {
    const isHandled = this.#options.clock.nowMs() < this.#restatedMs + RESTATES_EVERY_MS
    // An embedded authority loses single clients only, so the others need not be restated.
    if (!isHandled && !this.#options.authority.isEmbedded) this.#restateAll()
  }

  #resume(): void {
    // No process has spent any of its share when this one has just started, so there is nothing to wait for.
    if (this.#leases.size > 0 || this.#membership.hasAnswer)
      this.#outage.backMs = this.#options.clock.nowMs()
    this.#restateAll()
  }

  /** States again to the authority what every client used today. */
  #restateAll(): void {
    const nowMs = this.#options.clock.nowMs()
    this.#restatedMs = nowMs
    for (const [, lease] of this.#leases.entries()) {
      const { day } = lease
      if (day.used > 0 && nowMs < day.endsByMs) lease.doubt()
    }
    this.#settleUncertain()
  }
}
