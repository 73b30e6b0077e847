/**
 * Judges requests by limits that are only tried, beside the live ones and by the same code: the authority counts each client once
 * more, under an id that none can have. Nobody waits for it, and nobody is refused.
 */
import type { PlanConfig } from '../../config/config.ts'
import type { Lessee, LesseeOptions } from '../quota/lessee.ts'
import type { Admission, Authority, QuotaDecision } from '../../state/quota.ts'
import type { Caller } from '../rules/credentials.ts'
import { shadowId } from '../../state/memory/client-counters.ts'
import type { ShadowCounts } from './shadow-counts.ts'

/** Requests whose judgement is awaited; those beyond are not judged. */
const PENDING_AT_MOST = 1_000

type Decision = QuotaDecision | Promise<QuotaDecision>

export interface ShadowOptions {
  readonly authority: Authority
  /** Called once, when there is something to try; it reports nothing as decisions of this process. */
  openLessee(own: Pick<LesseeOptions, 'authority' | 'outage'>): Lessee
  readonly counts: ShadowCounts
  /** Every refusal, and every request that could not be judged. */
  refused(plan: string, by: 'minute' | 'day' | 'unjudged'): void
}

/** live: what the live limits say of the same request. undefined: its plan tries nothing. */
export type JudgeByShadow = (caller: Caller, live: Decision) => ShadowCharge | undefined

export class Shadow {
  readonly #options: ShadowOptions
  #lessee: Lessee | undefined
  #pending = 0

  constructor(options: ShadowOptions) {
    this.#options = options
  }

  /** undefined: nothing is tried. */
  judgeFor(plans: ReadonlyMap<string, PlanConfig>): JudgeByShadow | undefined {
    if (![...plans.values()].some(({ shadow }) => shadow !== undefined)) return undefined
    const lessee = (this.#lessee ??= this.#open())
    return (caller, live) => {
      const limits = plans.get(caller.plan)?.shadow
      if (limits === undefined) return undefined
      const isFull = this.#pending >= PENDING_AT_MOST
      const id = shadowId(caller.clientId)
      const charge = new ShadowCharge(lessee, id)
      const decision = isFull ? NOT_JUDGED : lessee.take(id, limits)
      if (!(decision instanceof Promise)) charge.decided(decision)
      if (!(decision instanceof Promise || live instanceof Promise))
        this.#note(caller, decision, live)
      else void this.#noteLater(caller, charge, decision, live)
      return charge
    }
  }

  /** Without beats: one more of those who share the limits would halve what is admitted while the store is away. */
  #open(): Lessee {
    const { beat: _, ...authority } = this.#options.authority
    return this.#options.openLessee({ authority, outage: 'closed' })
  }

  /** Returns everything held; takes at most two seconds. */
  async drain(): Promise<void> {
    await this.#lessee?.drain()
  }

  async #noteLater(caller: Caller, charge: ShadowCharge, shadow: Decision, live: Decision) {
    this.#pending += 1
    const decided = await shadow
    charge.decided(decided)
    this.#note(caller, decided, await live)
    this.#pending -= 1
  }

  #note({ clientId, plan }: Caller, decided: QuotaDecision, live: QuotaDecision): void {
    const { counts, refused } = this.#options
    const shadow =
      decided.kind === 'refused'
        ? decided.window
        : decided.kind === 'unavailable'
          ? 'degraded'
          : 'admitted'
    if (shadow !== 'admitted') refused(plan, shadow === 'degraded' ? 'unjudged' : shadow)
    const judged = { shadow, live: live.kind === 'refused' ? live.window : undefined } as const
    counts.note(clientId, plan, judged, Date.now())
  }
}

const NOT_JUDGED = { kind: 'unavailable' } as const

/** What a request may be handed back of it, whether it was judged yet or not. */
export class ShadowCharge {
  readonly #lessee: Lessee
  readonly #id: string
  #admission: Admission | undefined
  #isRefunded = false

  constructor(lessee: Lessee, id: string) {
    this.#lessee = lessee
    this.#id = id
  }

  decided(decision: QuotaDecision): void {
    if (decision.kind !== 'admitted') return
    this.#admission = decision
    if (this.#isRefunded) this.#handBack()
  }

  /** The live charge was handed back. */
  refund(): void {
    this.#isRefunded = true
    this.#handBack()
  }

  #handBack(): void {
    const admission = this.#admission
    if (admission === undefined) return
    this.#admission = undefined
    this.#lessee.refund(this.#id, admission)
  }
}
