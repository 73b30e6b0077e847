/**
 * Judges requests by shadow limits, beside the live ones and by the same code: the authority counts each client once more,
 * under an id that no client can have. No request waits for it, and none is refused.
 */
import type { PlanConfig } from '../../config/config.ts'
import type { WindowName } from '../../config/time.ts'
import type { Lessee, LesseeOptions } from '../quota/lessee.ts'
import type { QuotaDecision } from '../quota/decision.ts'
import type { Authority } from '../../state/quota.ts'
import type { Caller } from '../rules/credentials.ts'
import { shadowId } from '../../state/counters.ts'
import type { Tally } from './tally.ts'

/** Requests whose judgement is awaited, at most; further ones are not judged. */
const PENDING_AT_MOST = 1_000

type Decision = QuotaDecision | Promise<QuotaDecision>

export interface ShadowOptions {
  readonly authority: Authority
  /** Called once, when there are shadow limits; the lessee must not count its decisions among those of this process. */
  openLessee(own: Pick<LesseeOptions, 'authority' | 'outage'>): Lessee
  readonly tally: Pick<Tally, 'judged'>
  /** Called for every refusal, and for every request that could not be judged. */
  refused(plan: string, by: WindowName | 'unjudged'): void
}

export interface ShadowCharge {
  /** Called once, when the live charge was refunded, which may be before the request is judged. */
  refund(): void
}

/** live: the decision of the live limits on the same request. Returns undefined where its plan has no shadow limits. */
export type JudgeByShadow = (caller: Caller, live: Decision) => ShadowCharge | undefined

export class Shadow {
  readonly #options: ShadowOptions
  #lessee: Lessee | undefined
  #pending = 0

  constructor(options: ShadowOptions) {
    this.#options = options
  }

  /** Returns undefined where no plan has shadow limits. */
  judgeFor(plans: ReadonlyMap<string, PlanConfig>): JudgeByShadow | undefined {
    if (![...plans.values()].some(({ shadow }) => shadow !== undefined)) return undefined
    const { openLessee, authority } = this.#options
    // No beats are sent: one more process that shares the limits would halve what is admitted while the store is away.
    const { beat: _, ...silent } = authority
    const lessee = (this.#lessee ??= openLessee({ authority: silent, outage: 'closed' }))
    return (caller, live) => {
      const limits = plans.get(caller.plan)?.shadow
      if (limits === undefined) return undefined
      const isFull = this.#pending >= PENDING_AT_MOST
      const id = shadowId(caller.clientId)
      const decision = isFull ? NOT_JUDGED : lessee.take(id, limits)
      if (!(decision instanceof Promise || live instanceof Promise))
        this.#note(caller, decision, live)
      else void this.#noteLater(caller, decision, live)
      return { refund: () => void handBack(lessee, id, decision) }
    }
  }

  /** Returns everything held; takes at most two seconds. */
  async drain(): Promise<void> {
    await this.#lessee?.drain()
  }

  async #noteLater(caller: Caller, shadow: Decision, live: Decision) {
    this.#pending += 1
    this.#note(caller, await shadow, await live)
    this.#pending -= 1
  }

  #note(caller: Caller, decided: QuotaDecision, live: QuotaDecision): void {
    const { tally, refused } = this.#options
    const unrefused = decided.kind === 'admitted' ? 'admitted' : 'unjudged'
    const shadow = decided.kind === 'refused' ? decided.window : unrefused
    if (shadow !== 'admitted') refused(caller.plan, shadow)
    tally.judged(caller, shadow, live.kind === 'refused' ? live.window : undefined)
  }
}

const NOT_JUDGED = { kind: 'unavailable' } as const

async function handBack(lessee: Lessee, id: string, decision: Decision): Promise<void> {
  const decided = await decision
  if (decided.kind === 'admitted') lessee.refund(id, decided)
}
