/** The balancer gives each request a permit for one backend, or a place in line, and judges backends by the results. */
import type { Config } from '../../config/config.ts'
import {
  couldNotConnect,
  isGatewayFault,
  isIdempotent,
  speaksAgainstBackend,
} from '../rules/backend-failure.ts'
import type { Log } from '../record/log.ts'
import { clockTickMs, CoarseClock } from './coarse-clock.ts'
import { countOutcome, type Backend, type Outcome, type Sender } from './backend.ts'
import { restMs, type Standing } from './standing.ts'

/** connections: the number of permits of each backend. */
export type BalancerOptions = Pick<Config['upstream'], 'balance' | 'breaker' | 'connections'>

/** A backend that sends surplus bytes is reported again when it has not sent any for this long. */
const NAMED_EVERY_MS = 60_000

/** Extra rest of a failed backend for requests that may not be sent twice, or whose client has failed there: other requests try it first. */
const moreForOthersMs = 1_000

/** Each change of a backend's health is reported once. */
export type BackendObserver = Pick<Log, 'backendDown' | 'backendUp' | 'backendSurplus'>

export interface Asker {
  readonly job: { readonly clientId: string; readonly method: string }
  /** The backend where the request has just failed. */
  readonly avoid?: Backend | undefined
}

/** It waits in line where no permit is free. */
export interface Waiter extends Asker {
  /** responseTimeoutMs: limit for all waits of the request together. */
  readonly job: Asker['job'] & { readonly responseTimeoutMs: number }
  /** Time on the balancer's coarse clock. Written by the balancer when the first wait begins. */
  deadlineMs: number | undefined
  /** The request has left the line with a permit, which a report must give back. */
  onPermit(backend: Backend): void
  onOverdue(): void
}

export class Balancer {
  readonly backends: readonly Backend[]
  readonly #standings: readonly Standing[]
  readonly #options: BalancerOptions
  readonly #observer: BackendObserver | undefined
  readonly #line = new Line()
  /** Number of permits each client holds, one for each request and tunnel under way. Clients without any have no entry. */
  readonly #permits = new Map<string, number>()
  readonly #clock = new CoarseClock((nowMs) => this.#onTick(nowMs))
  /** Index of the backend that is considered first. */
  #turn = 0

  /** backends: one or more. */
  constructor(backends: readonly Backend[], options: BalancerOptions, observer?: BackendObserver) {
    this.backends = backends
    this.#standings = backends.map(({ standing }) => standing)
    this.#options = options
    this.#observer = observer
  }

  get waiting(): number {
    return this.#line.length
  }

  /**
   * Grants a permit, which one report() or giveBack() must return; undefined: the request has to wait. A client whose earlier
   * requests wait gets no permit for a later one. A client that has none in line may pass the line, as those who wait there
   * either hold too many permits or find none free.
   */
  take(asker: Asker): Backend | undefined {
    return this.#line.has(asker.job.clientId) ? undefined : this.#grant(asker)
  }

  /** Enters the line and returns true, if it has room; onPermit or onOverdue follows in a later turn, unless leave() comes first. */
  wait(waiter: Waiter): boolean {
    if (this.#line.length >= this.#options.breaker.waiting) return false
    waiter.deadlineMs ??= this.#clock.nowMs + waiter.job.responseTimeoutMs + clockTickMs
    this.#line.enter(waiter)
    this.#clock.start()
    return true
  }

  leave(waiter: Waiter): void {
    this.#line.leave(waiter)
  }

  /** Notes the outcome and gives the permit back. */
  report(backend: Backend, outcome: Outcome, sender: Sender): void {
    this.note(backend, outcome, sender)
    this.giveBack(backend, sender.job.clientId)
  }

  /** Notes the outcome but keeps the permit: a tunnel has been opened. */
  note(backend: Backend, outcome: Outcome, { job, startedMs }: Sender): void {
    const { clientId } = job
    countOutcome(backend.outcomes, outcome)
    if (outcome === 'abandoned') return
    const isAnswer = typeof outcome === 'number'
    if (!isAnswer && couldNotConnect(outcome)) return this.unreachable(backend, outcome.cause)
    if (!isAnswer && !speaksAgainstBackend(outcome)) return
    const nowMs = performance.now()
    const { attemptSeconds, standing } = backend
    attemptSeconds.observe((nowMs - startedMs) / 1000)
    if (isAnswer && !isGatewayFault(outcome)) {
      if (standing.isClear) return standing.answered(clientId, nowMs)
      return this.#judge(backend, (atMs) => standing.answered(clientId, atMs))
    }
    const failure = { cause: isAnswer ? `answers ${outcome}` : outcome.cause, clientId, isAnswer }
    this.#judge(backend, (atMs) => standing.failed(failure, this.#standings, atMs))
  }

  /** No connection could be made, by a request or by a readiness probe. */
  unreachable(backend: Backend, cause: string): void {
    this.#judge(backend, (nowMs) => backend.standing.unreachable(cause, this.#standings, nowMs))
  }

  connected(backend: Backend): void {
    if (!backend.standing.isClear)
      this.#judge(backend, (nowMs) => backend.standing.connected(nowMs))
  }

  surplus({ name, surplus }: Backend): void {
    const nowMs = performance.now()
    if (nowMs - surplus.lastMs >= NAMED_EVERY_MS) this.#observer?.backendSurplus({ backend: name })
    surplus.connections++
    surplus.lastMs = nowMs
  }

  /** Applies the result of a health check; cause: why it failed, undefined if it passed. */
  checked(backend: Backend, cause: string | undefined): void {
    this.#judge(backend, (nowMs) => backend.standing.checked(cause, nowMs))
  }

  /** Gives back a permit whose outcome was noted before. */
  giveBack(backend: Backend, clientId: string): void {
    backend.inUse--
    const permits = this.#permitsOf(clientId) - 1
    if (permits > 0) this.#permits.set(clientId, permits)
    else this.#permits.delete(clientId)
    if (this.#line.length > 0) this.#serveLine()
  }

  #judge({ name, standing }: Backend, act: (nowMs: number) => void): void {
    const nowMs = performance.now()
    const { isDown, faultSinceMs } = standing
    act(nowMs)
    if (isDown === standing.isDown) return
    if (isDown)
      return this.#observer?.backendUp({ backend: name, downMs: Math.round(nowMs - faultSinceMs) })
    const { fault = '', ejectedUntilMs } = standing
    const forMs = ejectedUntilMs === undefined ? undefined : Math.round(ejectedUntilMs - nowMs)
    this.#observer?.backendDown({ backend: name, cause: fault, forMs })
  }

  #serveLine(): void {
    // A client that was served and has more requests in line comes up again behind the others.
    for (const waiter of this.#line.firsts()) {
      const backend = this.#grant(waiter)
      if (backend !== undefined) {
        this.#line.serve(waiter)
        waiter.onPermit(backend)
      }
      // A client without any permit has the widest choice: if it gets none, nobody does.
      else if (this.#permitsOf(waiter.job.clientId) === 0) return
    }
  }

  #onTick(nowMs: number): boolean {
    for (const waiter of this.#line.all()) {
      if (nowMs < (waiter.deadlineMs ?? Infinity)) continue
      this.#line.leave(waiter)
      waiter.onOverdue()
    }
    // A backend's rest may have ended without any report.
    this.#serveLine()
    return this.#line.length > 0
  }

  #grant(asker: Asker): Backend | undefined {
    const permits = this.#permitsOf(asker.job.clientId)
    const backend = this.#choose(asker, permits)
    if (backend === undefined) return undefined
    backend.inUse++
    this.#permits.set(asker.job.clientId, permits + 1)
    return backend
  }

  #permitsOf(clientId: string): number {
    return this.#permits.get(clientId) ?? 0
  }

  /**
   * Prefers healthy backends to resting ones and those to ejected ones, even if the request then has to wait.
   * Yet one request a second tries a resting backend. Any other backend of equal health is preferred to `avoid` of the asker.
   * permits: how many the client already holds, of all backends.
   */
  #choose(asker: Asker, permits: number): Backend | undefined {
    const { backends } = this
    const { connections, balance } = this.#options
    const areWell = this.#standings.every(({ isWell }) => isWell)
    const nowMs = areWell ? 0 : performance.now()
    const level = areWell ? 0 : Math.min(...this.#standings.map((one) => levelOf(one, nowMs)))
    let best: Backend | undefined
    let bestRank = Infinity
    const turn = this.#turn
    for (let tried = 0; tried < backends.length; tried++) {
      const at = (turn + tried) % backends.length
      const backend = backends[at]
      if (backend === undefined || !mayTake(permits, connections - backend.inUse, connections))
        continue
      let rank = balance === 'least-requests' ? backend.inUse : 0
      if (!backend.standing.isWell) {
        if (isDue(backend.standing, nowMs, asker.job)) rank = -1
        else if (levelOf(backend.standing, nowMs) > level) continue
      }
      if (backend === asker.avoid) rank += connections
      if (rank >= bestRank) continue
      best = backend
      bestRank = rank
      this.#turn = at + 1
    }
    if (best !== undefined && bestRank < 0) best.standing.restsUntilMs = nowMs + restMs
    return best
  }
}

/** Requests wait for a backend in one line: clients take turns, and each client's requests keep their order. */
class Line {
  /** Number of requests in line. Written here only. */
  length = 0
  /** Requests of each client that waits. Clients stand in the order of their turns, and their requests in that of their arrival. */
  readonly #turns = new Map<string, Set<Waiter>>()

  enter(waiter: Waiter): void {
    const { clientId } = waiter.job
    const own = this.#turns.get(clientId)
    if (own === undefined) this.#turns.set(clientId, new Set([waiter]))
    else own.add(waiter)
    this.length++
  }

  has(clientId: string): boolean {
    return this.#turns.has(clientId)
  }

  /** The first request of each client, in the order of their turns. Requests may enter, leave and be served meanwhile. */
  *firsts(): Iterable<Waiter> {
    for (const [first] of this.#turns.values()) if (first !== undefined) yield first
  }

  /** All requests, those of one client together. Requests may enter, leave and be served meanwhile. */
  *all(): Iterable<Waiter> {
    for (const own of this.#turns.values()) yield* own
  }

  /** Removes a request that got its permit, and moves its client behind all others. */
  serve(waiter: Waiter): void {
    const { clientId } = waiter.job
    this.leave(waiter)
    const others = this.#turns.get(clientId)
    if (others === undefined) return
    this.#turns.delete(clientId)
    this.#turns.set(clientId, others)
  }

  /** Removes a request; it has no effect if the request has already left. */
  leave(waiter: Waiter): void {
    const { clientId } = waiter.job
    const own = this.#turns.get(clientId)
    if (own?.delete(waiter) !== true) return
    this.length--
    if (own.size === 0) this.#turns.delete(clientId)
  }
}

/**
 * The last eighth of the permits is reserved for clients that hold few: fewer than a quarter of what is free.
 * So a few clients that keep their permits for long leave one for a client without any.
 */
const mayTake = (permits: number, free: number, connections: number): boolean =>
  8 * free > connections || 4 * permits < free

const levelOf = (standing: Standing, nowMs: number): number => {
  if (standing.isOut(nowMs)) return 2
  return standing.isWell ? 0 : 1
}

/** The backend's rest is over, and this request may try it. */
function isDue(standing: Standing, nowMs: number, { method, clientId }: Asker['job']): boolean {
  if (standing.restsUntilMs === undefined || standing.isOut(nowMs)) return false
  if (nowMs < standing.restsUntilMs) return false
  const isGoodToTry = isIdempotent(method) && !standing.isBetterTriedByOthers(clientId, nowMs)
  return isGoodToTry || nowMs >= standing.restsUntilMs + moreForOthersMs
}
