/** Decides the requests of a log under one configuration, with the stages of the gateway and at the log's time. */
import type { Config } from '../../config/config.ts'
import type { PerWindow, WindowName } from '../../config/time.ts'
import { createScratch } from '../../server/gateway/scratch.ts'
import type { Judged } from '../../core/pipeline/exchange.ts'
import { judge } from '../../core/pipeline/pipeline.ts'
import type { Admission } from '../../core/quota/decision.ts'
import { createTokenCallers } from '../../core/credentials/callers.ts'
import { createCaller, type Caller } from '../../core/rules/credentials.ts'
import { isRefusal, refuse, type Refusal } from '../../core/rules/refusals.ts'
import { toRoute, type Route } from '../../core/rules/routes.ts'
import type { RequestRow } from '../log-files/row.ts'

/** free: refused uncharged, for neither quota nor ban. */
export type Decided = 'admitted' | WindowName | 'ban' | 'free'

/** Refusal of a request that the log has as refused by its route or for load; only a ban is decided before. */
const FREE = refuse('not_found')

interface PendingRefund {
  readonly atMs: number
  readonly caller: Caller
  readonly admission: Admission
}

export class ReplayedPolicy {
  readonly callerOf: ReturnType<typeof createCallers>
  readonly #scratch: ReturnType<typeof createScratch>
  readonly #routes: ReadonlyMap<string, Route>
  /** Refunds to come, the latest first. */
  readonly #refunds: PendingRefund[] = []
  #nowMs = 0

  constructor(config: Config) {
    this.callerOf = createCallers(config)
    const now = (): number => this.#nowMs
    this.#scratch = createScratch({ config, now })
    const { basePath } = config.server
    this.#routes = new Map(config.routes.map((route) => [route.name, toRoute(route, basePath)]))
  }

  /** Adds use that no decision here has charged, such as that before the log begins. */
  seed({ clientId, limits }: Caller, atMs: number, used: PerWindow<number>): void {
    this.#nowMs = Math.floor(atMs)
    this.#scratch.seed.use(clientId, limits, used)
  }

  /** Decides a request at the time of the log. */
  decide(caller: Caller, { atMs, route, outcome, refundedAtMs }: RequestRow): Decided {
    this.#refundUntil(atMs)
    this.#nowMs = Math.floor(atMs)
    const exchange: Judged = {
      route: route === undefined ? undefined : this.#routes.get(route),
      trace: undefined,
      decidedMs: undefined,
      admission: undefined,
      shadow: undefined,
      quota: undefined,
      degraded: false,
      quotaHeaders: [],
    }
    const refusal = outcome === 'free' ? FREE : undefined
    const decision = judge(this.#scratch.policy, exchange, caller, refusal)
    if (decision instanceof Promise) throw new Error('a scratch policy decides at once')
    if (isRefusal(decision)) return refusedBy(decision)
    if (!Number.isNaN(refundedAtMs))
      this.#refundLater({ atMs: refundedAtMs, caller, admission: decision })
    return 'admitted'
  }

  close(): Promise<void> {
    return this.#scratch.close()
  }

  #refundLater(refund: PendingRefund): void {
    let place = this.#refunds.length
    while (place > 0 && (this.#refunds[place - 1]?.atMs ?? 0) < refund.atMs) place--
    this.#refunds.splice(place, 0, refund)
  }

  #refundUntil(atMs: number): void {
    for (let next = this.#refunds.at(-1); next !== undefined && next.atMs <= atMs;) {
      this.#refunds.pop()
      this.#nowMs = Math.floor(next.atMs)
      this.#scratch.policy.lessee.refund(next.caller.clientId, next.admission)
      next = this.#refunds.at(-1)
    }
  }
}

const refusedBy = ({ code, window }: Refusal): Decided => {
  if (code === 'api_key_banned') return 'ban'
  return code === 'rate_limit_exceeded' && window !== undefined ? window : 'free'
}

const TOKEN_PREFIX = 'jwt:'

/** Makes the function that finds the caller that a name in a log means: a key in Tollgate's own log, a client or a key in another. undefined: the configuration lacks the name. */
function createCallers(config: Config) {
  const { clients } = config
  const isStructured = config.server.structuredQuotaHeaders
  const ofToken = createTokenCallers(config, isStructured)
  /** planOfLine: the plan that the line names, if any. isOwn: the log is Tollgate's own, which names keys. */
  return (name: string, planOfLine: string | undefined, isOwn: boolean): Caller | undefined => {
    const owned = clients.keyById(name)
    const client = owned?.client ?? (isOwn ? undefined : clients.get(name))
    if (client !== undefined) return createCaller(client, owned?.key ?? { id: name }, isStructured)
    if (!name.startsWith(TOKEN_PREFIX) || config.jwt === undefined) return undefined
    const clientId = name.slice(TOKEN_PREFIX.length)
    return ofToken({ kid: undefined, clientId, plan: planOfLine, expiresAtMs: Infinity })
  }
}
