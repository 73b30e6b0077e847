/** Decides the requests of this process from the client's lease, or through a call to the authority where the lease has no answer. */
import type { Limits, OutageMode } from '../../config/config.ts'
import type { AuthorityCallsOptions } from './authority-calls.ts'
import { Client } from './client.ts'
import { Holdings } from './holdings.ts'
import { LeaseCalls } from './lease-calls.ts'
import { Lease } from './lease.ts'
import { Membership } from './membership.ts'
import { Outage } from './outage.ts'
import type { Admission, Authority, QuotaDecision, QuotaView } from '../../state/quota.ts'
import type { QuotaObserver } from '../../state/quota.ts'
import { RecencyTable } from '../../state/memory/recency-table.ts'
import { systemTimers, type Timers } from '../../state/timers.ts'

/** A client idle for so long is forgotten; the authority keeps its counts. */
const IDLE_BEFORE_FORGETTING_MS = 3_600_000
const FORGET_EVERY_MS = 60_000
/** One pass serves all clients affected by a loss of data, each of which reports it. */
const RESTATES_EVERY_MS = 1_000
/** Enough time for tens of thousands of leases; a store that is away ends the drain sooner. */
const DRAIN_AT_MOST_MS = 2000

export interface LesseeOptions extends Pick<AuthorityCallsOptions, 'onClockBack' | 'onTime'> {
  readonly authority: Authority
  /** Unique per boot of this process. */
  readonly processId: string
  /** nowMs: monotonic, in ms. epochMs: Unix time in ms, used only until the first reply of the authority. */
  readonly clock: { nowMs(): number; epochMs(): number }
  /** Mode of decision while the authority is away. */
  readonly outage: OutageMode
  /** Number of processes that share each client until the authority reports them, and the number of this one among them. Default 1. */
  readonly processes?: number
  readonly number?: number | undefined
  /** auto: holds tokens ahead of need, unless the authority is in this process. off: one call per request. */
  readonly lease?: 'auto' | 'off'
  readonly observe?: QuotaObserver
  readonly timers?: Timers
  /** With more clients, those not seen lately are forgotten. */
  readonly maxClients?: number
}

/** The only part of the quota that pipeline stages use. */
export class Lessee {
  readonly #options: LesseeOptions
  readonly #clients: RecencyTable<Client>
  readonly #membership: Membership
  readonly #outage: Outage
  readonly #calls: LeaseCalls
  readonly #holdings: Holdings
  readonly #stopForgetting: () => void
  /** When this process last began to restate all its use. */
  #restatedMs = -Infinity

  constructor(options: LesseeOptions) {
    const { authority, processId, clock, observe, timers = systemTimers } = options
    const { processes = 1, number = 1, outage: mode } = options
    this.#options = options
    this.#clients = new RecencyTable({
      maxEntries: options.maxClients ?? 100_000,
      mayDrop: (client) => this.#isIdle(client),
    })
    this.#membership = new Membership({ authority, timers, processId, processes, number })
    this.#outage = new Outage({ mode, membership: this.#membership, observe })
    this.#calls = new LeaseCalls({
      ...options,
      timers,
      lease: options.lease ?? 'auto',
      outage: this.#outage,
      onAnswered: (client) => this.#holdings.watch(client),
      onLoss: () => this.#recoverLoss(),
    })
    this.#holdings = new Holdings(this.#calls, clock, timers)
    this.#stopForgetting = timers.every(FORGET_EVERY_MS, () => this.#forgetIdle())
    authority.onReturn?.(() => this.#resume())
    const follow = (isFlowing: boolean): void => this.#calls.authority.follow(isFlowing)
    authority.onNotice?.((id, notice, by, totals) => {
      const client = this.#clients.peek(id)
      const isOwn = notice === 'unknown' && by === processId
      if (client === undefined || isOwn) return
      if (totals !== undefined) client.lease.note(totals, by === processId)
      this.#holdings.handleNotice(client, notice)
      if (notice === 'unknown' && client.lease.knowsDay(clock.nowMs())) this.#recoverLoss()
    }, follow)
  }

  /** Charges one request in both windows or in neither. Returns at once whenever the answer is known. Never throws or rejects. */
  take(id: string, limits: Limits): QuotaDecision | Promise<QuotaDecision> {
    const nowMs = this.#options.clock.nowMs()
    const client = this.#clientOf(id, limits, nowMs)
    const { lease } = client
    lease.pace.seen += 1
    const known = lease.decide(limits, nowMs)
    if (known !== undefined) {
      if (known.kind === 'admitted' && !client.isCalling) {
        const ahead = lease.isRunningOut()
        if (ahead || lease.isOutdated()) this.#calls.call(client, { ahead })
      }
      return this.#observed(known)
    }
    const decision = this.#outage.refusal(client, limits, nowMs) ?? this.#calls.take(client, limits)
    return decision instanceof Promise ? this.#awaited(client, decision) : this.#observed(decision)
  }

  /** Returns the client's standing without a charge; undefined while the store is away. */
  peek(id: string, limits: Limits): QuotaView | undefined | Promise<QuotaView | undefined> {
    const nowMs = this.#options.clock.nowMs()
    const client = this.#clientOf(id, limits, nowMs)
    if (client.lease.isCurrent(limits, nowMs) && !client.isUncertain)
      return client.lease.view(limits, nowMs)
    if (!client.isCalling && !this.#calls.call(client, {})) return undefined
    const view = (): QuotaView | undefined =>
      client.isUncertain ? undefined : client.lease.view(limits, this.#options.clock.nowMs())
    return client.inFlight?.then(view) ?? view()
  }

  /** Returns the same as far as this process knows it without asking another; undefined where it does not. */
  known(id: string, limits: Limits): QuotaView | undefined {
    if (this.#calls.authority.isImmediate) {
      const view = this.peek(id, limits)
      return view instanceof Promise ? undefined : view
    }
    const nowMs = this.#options.clock.nowMs()
    const client = this.#clients.peek(id)
    if (client === undefined || client.isUncertain) return undefined
    return client.lease.isCurrent(limits, nowMs) ? client.lease.view(limits, nowMs) : undefined
  }

  /** Refunds the charge of a request that never reached a backend, in those of its windows that still run. */
  refund(id: string, admission: Admission): void {
    const client = this.#clients.get(id)
    if (client === undefined) return
    client.lease.refund(admission)
    if (this.#calls.authority.isImmediate && !client.isCalling)
      this.#calls.call(client, { returns: true })
    else this.#holdings.watch(client)
  }

  /** Returns everything held; takes at most two seconds. */
  async drain(): Promise<void> {
    const { timers = systemTimers } = this.#options
    this.#stopForgetting()
    await Promise.race([this.#holdings.drain(), timers.after(DRAIN_AT_MOST_MS)])
    this.#membership.leave()
  }

  #clientOf(id: string, limits: Limits, nowMs: number): Client {
    let client = this.#clients.get(id)
    if (client === undefined) {
      const { followed } = this.#calls.authority
      client = new Client(new Lease(id, { limits, nowMs, followed }), this.#holdings.uncertain)
      this.#clients.add(id, client)
    }
    client.lease.limits = limits
    client.lease.lastUsedMs = nowMs
    return client
  }

  /** Separate from take, whose fast path must not pay for the closure. */
  #awaited(client: Client, decision: Promise<QuotaDecision>): Promise<QuotaDecision> {
    client.pending += 1
    return decision.then((decided) => {
      client.pending -= 1
      return this.#observed(decided)
    })
  }

  #observed(decision: QuotaDecision): QuotaDecision {
    const window = decision.kind === 'refused' ? decision.window : 'none'
    this.#options.observe?.decision(window, decision.kind)
    return decision
  }

  #isIdle(client: Client): boolean {
    return !client.isCalling && !client.isHolder && !client.isUncertain
  }

  #forgetIdle(): void {
    const nowMs = this.#options.clock.nowMs()
    for (const [id, client] of this.#clients.entries())
      if (nowMs - client.lease.lastUsedMs >= IDLE_BEFORE_FORGETTING_MS && this.#isIdle(client))
        this.#clients.delete(id)
  }

  /** Handles a loss of data. No process has spent its share, as the authority answers and itself waits for the statements it has lost. */
  #recoverLoss(): void {
    const isHandled = this.#options.clock.nowMs() < this.#restatedMs + RESTATES_EVERY_MS
    // The embedded authority loses single clients only.
    if (!isHandled && !this.#calls.authority.isImmediate) this.#restateAll()
  }

  /** Called when the authority is back. */
  #resume(): void {
    // At a start no process has spent a share yet.
    if (this.#clients.size > 0 || this.#membership.hasAnswer)
      this.#outage.settle(this.#options.clock.nowMs())
    this.#restateAll()
  }

  /** States again to the authority what every client used today. */
  #restateAll(): void {
    const nowMs = this.#options.clock.nowMs()
    this.#restatedMs = nowMs
    for (const [, client] of this.#clients.entries()) {
      const { day } = client.lease
      if (day.used > 0 && nowMs < day.endsByMs) client.doubt()
    }
    this.#holdings.settleUncertain()
  }
}
