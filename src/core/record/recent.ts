/**
 * The latest decisions of one process. Refusals of keys, refusals without a valid credential and all others have rings of their
 * own, so that none displaces another; refusals of keys have several, so that one key displaces those of few others.
 */
import { perWindow } from '../../config/time.ts'
import { hashText } from '../../config/clients/index-slots.ts'
import type { SeenUse } from './tally.ts'
import type { Exchange } from '../pipeline/exchange.ts'
import { loggedPath, micros, type RequestTimes } from './access-record.ts'
import { plainText } from './safe-text.ts'
import type { QuotaView, WindowView } from '../quota/decision.ts'
import type { Refusal } from '../rules/refusals.ts'

/** Decisions kept in each ring. */
export const KEPT_DECISIONS = 1_000
const REFUSED_RINGS = 8
export const LISTED_DECISIONS = 200
/** The path of a longer target is copied: a substring would keep the whole target in memory, query and all. */
const TARGET_CHARS = 200
/** Decisions returned by take at most. */
const TAKEN_DECISIONS = 50

/** One recent decision, as listed and as sent in the event `decision`. */
export type Decision = Readonly<ReturnType<typeof decisionOf>>

/** A slot of a ring, written again and again, so that noting a request allocates nothing. */
class Noted {
  id = ''
  atMs = 0
  endedMs = 0
  method = ''
  path: string | undefined
  route: string | undefined
  caller: Exchange['caller']
  status = 0
  refusal: Refusal | undefined
  quota: QuotaView | undefined
  backend: string | undefined
  gatewayMs = 0
  backendMs: number | undefined
  /** stands: one token of each window is charged; refunded: it was given back, as no backend saw the request; null: none was. */
  charge: 'stands' | 'refunded' | null = null
  degraded = false
  cause: string | undefined
  revision = ''
}

export interface RequestQuery {
  readonly client: string | undefined
  readonly refused: boolean
  readonly id: string | undefined
}

export class RecentDecisions {
  readonly #worker: number
  readonly #refused = Array.from({ length: REFUSED_RINGS }, () => new Ring())
  readonly #keyless = new Ring()
  readonly #others = new Ring()
  readonly #rings: readonly Ring[] = [...this.#refused, this.#keyless, this.#others]

  constructor(worker: number) {
    this.#worker = worker
  }

  note(one: Exchange, { nowMs, totalMs, gatewayMs, backendMs }: RequestTimes): void {
    const noted = this.#ringOf(one).next()
    noted.id = one.id
    noted.atMs = nowMs - totalMs
    noted.endedMs = nowMs
    noted.method = one.request.method ?? ''
    const path = one.path ?? one.request.url
    const isShort = (one.request.url ?? '').length <= TARGET_CHARS
    noted.path = path === undefined || isShort ? path : copied(path)
    noted.route = one.route?.name
    noted.caller = one.caller ?? one.refusedCaller
    noted.status = one.status
    noted.refusal = one.refusal
    noted.quota = one.quota
    noted.backend = one.backend
    noted.gatewayMs = gatewayMs
    noted.backendMs = backendMs
    noted.charge = one.refundedMs !== undefined ? 'refunded' : one.admission ? 'stands' : null
    noted.degraded = one.degraded
    noted.cause = one.cause
    noted.revision = one.terms.revision
  }

  /** Returns the latest decisions since the last call, in the order in which their requests ended. */
  take(): Decision[] {
    return this.#rings
      .flatMap((ring) => ring.take())
      .sort((one, other) => one.endedMs - other.endedMs)
      .slice(-TAKEN_DECISIONS)
      .map((one) => decisionOf(one, this.#worker))
  }

  /** Returns the latest decisions that match, newest first. */
  find({ client, refused, id }: RequestQuery): Decision[] {
    return this.#rings
      .flatMap((ring) => (refused && ring === this.#others ? [] : ring.all))
      .filter((one) => client === undefined || one.caller?.clientId === client)
      .filter((one) => id === undefined || one.id === id)
      .sort((one, other) => other.atMs - one.atMs)
      .slice(0, LISTED_DECISIONS)
      .map((one) => decisionOf(one, this.#worker))
  }

  #ringOf({ refusal, caller, refusedCaller }: Exchange): Ring {
    if (refusal === undefined) return this.#others
    const key = (caller ?? refusedCaller)?.keyId
    return (key && this.#refused[hashText(key) % REFUSED_RINGS]) || this.#keyless
  }
}

function decisionOf({ caller, refusal, quota, cause, ...noted }: Noted, worker: number) {
  const { backendMs, path, route = null, backend = null } = noted
  return {
    id: plainText(noted.id, 200),
    at: new Date(noted.atMs).toISOString(),
    worker,
    method: plainText(noted.method, 32),
    path: loggedPath(path) ?? null,
    route,
    client: caller?.clientId ?? null,
    key: caller?.keyId ?? null,
    plan: caller?.plan ?? null,
    /** 0: the client left before a status was sent. */
    status: noted.status,
    refusal: refusal?.code ?? null,
    /** The window whose limit refused the request. */
    window: refusal?.window ?? null,
    retryAfterSeconds: refusal?.retryAfterSeconds ?? null,
    ...perWindow((one) => useOf(quota?.[one.name])),
    backend,
    gatewayMs: micros(noted.gatewayMs),
    backendMs: backendMs === undefined ? null : micros(backendMs),
    charge: noted.charge,
    degraded: noted.degraded,
    cause: cause === undefined ? null : plainText(cause, 200),
    /** The beginning of the revision of the configuration in force at the decision. */
    revision: noted.revision,
  }
}

class Ring {
  readonly all: Noted[] = []
  #next = 0
  /** Decisions noted since the last take. */
  #fresh = 0

  next(): Noted {
    const noted = (this.all[this.#next] ??= new Noted())
    this.#next = (this.#next + 1) % KEPT_DECISIONS
    this.#fresh++
    return noted
  }

  /** Returns the latest slots noted since the last call. */
  take(): Noted[] {
    const length = Math.min(this.#fresh, TAKEN_DECISIONS)
    this.#fresh = 0
    // Before the first slot comes the last one.
    return Array.from({ length }, (_, back) => this.all.at(this.#next - 1 - back) ?? []).flat()
  }
}

const copied = (text: string): string => Buffer.from(text.slice(0, 2 * TARGET_CHARS)).toString()

const useOf = (window: WindowView | undefined): SeenUse | null =>
  window === undefined ? null : { used: window.limit - window.remaining, limit: window.limit }
