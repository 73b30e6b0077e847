/** Judges one backend by its requests and checks: when it rests, is ejected and comes back. Time is an argument. */
import type { Config } from '../../config/config.ts'

export type EjectOptions = Config['upstream']['eject']
export type CheckOptions = Pick<NonNullable<Config['upstream']['health']>, 'down' | 'up'>

/** Other backends are preferred for this long after a failure; then one request a second tries the backend. */
export const restMs = 1_000

const notChecked = 'not checked yet'

export class Standing {
  /** Requests or checks have failed so often that the backend is reported as down; it need not be ejected (`atMost`). */
  isDown = false
  /** Cause of the latest failure; undefined: nothing has failed, or an answer has cleared it. */
  fault: string | undefined
  /** Time of the first failure since the last answer, on the clock of the arguments. */
  faultSinceMs = 0
  /** The fault is that no connection could be made, or that no check has finished yet. */
  isUnreachable = false
  /** End of the ejection; undefined: the backend is not ejected. */
  ejectedUntilMs: number | undefined
  /** Other backends are preferred until then; undefined: the backend does not rest. */
  restsUntilMs: number | undefined
  failsChecks = false
  /** Time of the last answer to any client. */
  answeredMs = -Infinity
  // use() replaces these two.
  #eject: EjectOptions
  #checks: CheckOptions | undefined
  readonly #clients = new ClientOutcomes()
  /** Other clients were active when the last request failed. */
  #areOthersActive = false
  /** Number of requests that have failed since the backend came back. */
  #failures = 0
  /** Number of connections in a row that could not be made. */
  #unconnected = 0
  #lastFailureMs = 0
  /** The ejection is over, and the next answer decides. */
  #isOnProbation = false
  /** Number of ejections in close succession. */
  #ejections = 0
  #ejectedForMs = 0
  /** Time at which the backend last came back; undefined: it is down, or it was never down. */
  #backSinceMs: number | undefined
  /** A check has passed, or nothing had failed when checks were configured; until then a single check decides. */
  #wasSeenWell = false
  /** Number of equal check results in a row; negative for failures. */
  #checksInARow = 0

  /** checks: the thresholds of health checks; with them the backend is usable once a check has passed. */
  constructor(eject: EjectOptions, checks?: CheckOptions, nowMs = performance.now()) {
    this.#eject = eject
    this.#checks = checks
    if (checks === undefined) return
    this.#blame(notChecked, nowMs)
    this.isUnreachable = true
  }

  /** Applies new settings; earlier findings stay valid. */
  use(eject: EjectOptions, checks: CheckOptions | undefined, nowMs: number): void {
    this.#eject = eject
    this.#checks = checks
    // The first failed check alone does not take down a backend that serves.
    if (checks !== undefined) return void (this.#wasSeenWell ||= this.isClear)
    this.#checksInARow = 0
    if (this.isUnknown) this.#comeBack(nowMs)
    if (!this.failsChecks) return
    // No check will bring it back any more: one request decides.
    this.failsChecks = this.isUnreachable = false
    this.ejectedUntilMs ??= nowMs
  }

  /** Nothing has failed, or an answer has cleared it. */
  get isClear(): boolean {
    return this.fault === undefined
  }

  /** The backend awaits its first result, of a check or a request. */
  get isUnknown(): boolean {
    return this.fault === notChecked
  }

  /** No connection could be made, which no client can cause by its request. */
  unreachable(cause: string, all: readonly Standing[], nowMs: number): void {
    this.#blame(cause, nowMs)
    this.isUnreachable = true
    if (this.isEjected(nowMs)) return
    this.restsUntilMs = nowMs + restMs
    this.#lastFailureMs = nowMs
    this.#unconnected++
    if (this.#unconnected >= this.#eject.failures) this.#goDown(all, nowMs)
  }

  /**
   * A client's request has failed, perhaps because of the request itself. The backend goes down when all of this holds: it has
   * answered nobody for a second; `failures` requests have failed since it came back; within `eject.within` it has served no
   * client whose latest request has not failed, and has failed `failures` clients, or all that were active at any backend.
   * isAnswer: the failure was an answer, such as 503, which costs the client less than a timeout. all: the standings of all backends,
   * this one's included.
   */
  failed(
    { cause, clientId, isAnswer }: { cause: string; clientId: string; isAnswer: boolean },
    all: readonly Standing[],
    nowMs: number,
  ): void {
    const { failures, withinMs } = this.#eject
    const sinceMs = nowMs - withinMs
    this.#blame(cause, nowMs)
    this.isUnreachable = false
    this.#unconnected = 0
    // The request was sent before the ejection.
    if (this.isEjected(nowMs)) return
    const clients = this.#clients
    clients.failed(clientId, nowMs, sinceMs)
    const isOtherAtWork = (isOneOfThose: (id: string) => boolean): boolean =>
      all.some((one) => one.#clients.hasOther(sinceMs, isOneOfThose))
    this.#areOthersActive = isOtherAtWork((id) => id === clientId)
    this.#lastFailureMs = nowMs
    this.#failures++
    const isMany = this.#failures >= failures
    const servesOthers = clients.servesAny(sinceMs)
    // One client's failure means little while the backend serves others.
    const isBelieved = !servesOthers || clients.failures(this.answeredMs) > 1
    if (isBelieved && (isMany || !isAnswer)) this.restsUntilMs = nowMs + restMs
    if (!isMany || servesOthers || nowMs - this.answeredMs < restMs) return
    const hasFailed = (id: string): boolean => clients.hasFailed(id, sinceMs)
    if (clients.failures(sinceMs) >= failures || !isOtherAtWork(hasFailed)) this.#goDown(all, nowMs)
  }

  answered(clientId: string, nowMs: number): void {
    const hadFailed = this.#clients.served(clientId, nowMs)
    this.answeredMs = nowMs
    if (!this.isClear) this.#recover(hadFailed, nowMs)
  }

  /** A connection could be made, which clears the fault of an unreachable backend. */
  connected(nowMs: number): void {
    if (this.isUnreachable && !this.isClear) this.#recover(true, nowMs)
  }

  /** Applies the result of a check. cause: why it failed; undefined: it passed. */
  checked(cause: string | undefined, nowMs: number): void {
    const { down, up } = (this.#wasSeenWell && this.#checks) || { down: 1, up: 1 }
    const inARow = this.#checksInARow
    this.#wasSeenWell ||= cause === undefined
    if (cause === undefined) this.connected(nowMs)
    this.#checksInARow = cause === undefined ? Math.max(inARow, 0) + 1 : Math.min(inARow, 0) - 1
    if (-this.#checksInARow >= down) {
      this.#blame(cause ?? '', nowMs)
      this.failsChecks = true
      this.isDown = true
    } else if (this.#checksInARow >= up && this.isDown) {
      const isOver = this.ejectedUntilMs !== undefined && nowMs >= this.ejectedUntilMs
      const comesBack = isOver || (this.failsChecks && this.ejectedUntilMs === undefined)
      this.failsChecks = false
      if (comesBack) this.#comeBack(nowMs)
    }
  }

  get isWell(): boolean {
    return this.restsUntilMs === undefined && this.ejectedUntilMs === undefined && !this.failsChecks
  }

  /** Requests can be served through it. Only its checks decide, where it has any: no client can influence them. */
  get isUsable(): boolean {
    if (this.#checks !== undefined) return !this.failsChecks && !this.isUnknown
    return !this.isDown && !this.isUnreachable
  }

  /** The backend gets no requests while others do. */
  isOut(nowMs: number): boolean {
    return this.failsChecks || this.isEjected(nowMs)
  }

  /**
   * Whether the backend is ejected for failed requests. This call also ends an ejection whose time is over, so that the next request
   * decides; with health checks the ejection lasts until a check has passed.
   */
  isEjected(nowMs: number): boolean {
    if (this.ejectedUntilMs === undefined) return false
    if (nowMs < this.ejectedUntilMs || this.#checks !== undefined) return true
    this.ejectedUntilMs = undefined
    this.restsUntilMs = nowMs
    this.#isOnProbation = true
    return false
  }

  /** The client's latest request here has failed and other clients are active: theirs are the better test. */
  isBetterTriedByOthers(clientId: string, nowMs: number): boolean {
    return this.#areOthersActive && this.#clients.hasFailed(clientId, nowMs - this.#eject.withinMs)
  }

  /** isDoubtful: the answer may be the one success between two failures. */
  #recover(isDoubtful: boolean, nowMs: number): void {
    if (this.isOut(nowMs)) return
    const isTooSoon = nowMs - this.#lastFailureMs < restMs && !this.#isOnProbation
    if (!(this.isDown && isDoubtful && isTooSoon)) this.#comeBack(nowMs)
  }

  #blame(cause: string, nowMs: number): void {
    if (this.fault === undefined) this.faultSinceMs = nowMs
    this.fault = cause
  }

  #goDown(all: readonly Standing[], nowMs: number): void {
    const { forMs, growth, maxForMs, atMost } = this.#eject
    this.isDown = true
    const ejected = all.filter((one) => one !== this && one.isEjected(nowMs)).length
    if (ejected >= Math.floor(atMost * all.length)) return
    // After a healthy time longer than the last ejection, the count starts again.
    if (nowMs - (this.#backSinceMs ?? nowMs) > this.#ejectedForMs) this.#ejections = 0
    this.#backSinceMs = undefined
    this.#ejectedForMs = Math.min(forMs * growth ** this.#ejections, maxForMs)
    this.#ejections++
    this.#isOnProbation = false
    this.ejectedUntilMs = nowMs + this.#ejectedForMs
  }

  #comeBack(nowMs: number): void {
    if (this.isDown) this.#backSinceMs = nowMs
    this.isDown = false
    this.fault = undefined
    this.isUnreachable = false
    this.ejectedUntilMs = undefined
    this.restsUntilMs = undefined
    this.failsChecks = false
    this.#failures = 0
    this.#unconnected = 0
    this.#isOnProbation = false
  }
}

/** Clients that have an entry of their own; all others share one. */
const MOST_CLIENTS = 64

/** Keeps each client's latest result at one backend. A client counts once, however many requests it sends. */
class ClientOutcomes {
  readonly #latest = new Map<string, { hasFailed: boolean; atMs: number }>()
  /** Time at which a client without an entry was last served. */
  #othersServedMs = -Infinity

  /** Returns whether the client's previous request had failed. */
  served(clientId: string, nowMs: number): boolean {
    const latest = this.#latest.get(clientId)
    if (latest === undefined) {
      if (this.#latest.size < MOST_CLIENTS)
        this.#latest.set(clientId, { hasFailed: false, atMs: nowMs })
      else this.#othersServedMs = nowMs
      return false
    }
    const { hasFailed } = latest
    latest.hasFailed = false
    latest.atMs = nowMs
    return hasFailed
  }

  failed(clientId: string, nowMs: number, sinceMs: number): void {
    const isKnown = this.#latest.has(clientId)
    if (!isKnown && this.#latest.size >= MOST_CLIENTS)
      for (const [id, { atMs }] of this.#latest) if (atMs < sinceMs) this.#latest.delete(id)
    if (isKnown || this.#latest.size < MOST_CLIENTS)
      this.#latest.set(clientId, { hasFailed: true, atMs: nowMs })
  }

  hasFailed(clientId: string, sinceMs: number): boolean {
    const latest = this.#latest.get(clientId)
    return latest !== undefined && latest.hasFailed && latest.atMs >= sinceMs
  }

  /** Reports whether a client was served that has not failed since. */
  servesAny(sinceMs: number): boolean {
    if (this.#othersServedMs >= sinceMs) return true
    for (const { hasFailed, atMs } of this.#latest.values())
      if (!hasFailed && atMs >= sinceMs) return true
    return false
  }

  /** Counts clients that have failed and were not served since. */
  failures(sinceMs: number): number {
    let count = 0
    for (const { hasFailed, atMs } of this.#latest.values())
      if (hasFailed && atMs >= sinceMs) count++
    return count
  }

  /** Reports whether a client outside the given set was served or failed. */
  hasOther(sinceMs: number, isOneOfThose: (clientId: string) => boolean): boolean {
    if (this.#othersServedMs >= sinceMs) return true
    for (const [id, { atMs }] of this.#latest) if (atMs >= sinceMs && !isOneOfThose(id)) return true
    return false
  }
}
