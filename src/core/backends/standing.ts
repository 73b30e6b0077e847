/** How one backend fares, from what becomes of its requests and checks: when it is spared, left out and taken back. Time is an argument. */
import type { Config } from '../../config/config.ts'
import { ClientOutcomes } from './client-outcomes.ts'

export type EjectOptions = Config['upstream']['eject']
export type CheckOptions = Pick<NonNullable<Config['upstream']['health']>, 'down' | 'up'>

/** After a failure others are preferred for so long; then one request a second shows how it is. */
export const restMs = 1_000

const notChecked = 'not checked yet'

/** mayEject: not too many other backends are left out. */
export interface Failure {
  readonly cause: string
  readonly mayEject: boolean
}

export interface ClientFailure extends Failure {
  readonly clientId: string
  /** It answered so, which costs its client less than silence does. */
  readonly isAnswer: boolean
  /** Whether any backend has since then served or failed a client that is none of those. */
  isOtherAtWork(sinceMs: number, isOneOfThose: (clientId: string) => boolean): boolean
}

export class Standing {
  /** Nothing has failed since the last answer: nothing speaks against it. */
  isClear = true
  /** It fails everybody: it is to be named. */
  isDown = false
  /** Why it failed last; undefined once it has answered since. */
  fault: string | undefined
  /** Of `fault`; on the clock of the arguments. */
  faultSinceMs = 0
  /** Of `fault`: no connection could be made, or nobody has seen it yet. */
  isUnreachable = false
  /** Gets no request before; undefined: it is not ejected. */
  ejectedUntilMs: number | undefined
  /** Others are preferred until then. */
  restsUntilMs: number | undefined
  /** It failed its checks. */
  failsChecks = false
  /** When it last answered anybody. */
  answeredMs = -Infinity
  /** These two are written by use. */
  #eject: EjectOptions
  #checks: CheckOptions | undefined
  readonly #clients = new ClientOutcomes()
  /** The client that it failed last was not the only one at work. */
  #isOfSeveral = false
  /** Requests that have failed since the last answer. */
  #failures = 0
  /** Connections in a row that could not be made. */
  #unconnected = 0
  #lastFailureMs = 0
  /** Its time is over, and the next answer decides. */
  #isOnProbation = false
  /** Ejections, one soon after the other. */
  #ejections = 0
  #ejectedForMs = 0
  /** Since it was ejected last; undefined before. */
  #backSinceMs: number | undefined
  /** By a check: before that one check decides. */
  #wasSeenWell = false
  /** Checks in a row that said the same: failed when negative. */
  #checksInARow = 0

  /** checks: of a backend that is asked by itself; it is of use once one has found it well. */
  constructor(eject: EjectOptions, checks?: CheckOptions, nowMs = performance.now()) {
    this.#eject = eject
    this.#checks = checks
    if (checks === undefined) return
    this.#blame(notChecked, nowMs)
    this.isUnreachable = true
  }

  /** From here on it is judged by these settings; what was found out under others holds. */
  use(eject: EjectOptions, checks: CheckOptions | undefined, nowMs: number): void {
    this.#eject = eject
    this.#checks = checks
    // One that serves is not taken out by the very first check.
    if (checks !== undefined) return void (this.#wasSeenWell ||= this.isClear)
    this.#checksInARow = 0
    if (this.isUnknown) this.#comeBack(nowMs)
    if (!this.failsChecks) return
    // No check takes it back any more: one request decides.
    this.failsChecks = this.isUnreachable = false
    this.ejectedUntilMs ??= nowMs
  }

  /** It is to be checked, and neither a check nor a request has found anything yet. */
  get isUnknown(): boolean {
    return this.fault === notChecked
  }

  /** No connection could be made, which no client brings about by what it asks for. */
  unreachable({ cause, mayEject }: Failure, nowMs: number): void {
    this.#blame(cause, nowMs)
    this.isUnreachable = true
    if (this.isEjected(nowMs)) return
    this.restsUntilMs = nowMs + restMs
    this.#lastFailureMs = nowMs
    this.#unconnected++
    if (this.#unconnected >= this.#eject.failures) this.#goDown(mayEject, nowMs)
  }

  /**
   * The request of a client has failed, perhaps by what it asks for. It is the backend that fails where it has answered
   * nobody for a second, serves none but those who fail now, and fails as many clients as `failures` says, or all who
   * ask for anything with as many requests.
   */
  failed({ clientId, isOtherAtWork, ...failure }: ClientFailure, nowMs: number): void {
    const { failures, withinMs } = this.#eject
    const sinceMs = nowMs - withinMs
    this.#blame(failure.cause, nowMs)
    this.isUnreachable = false
    this.#unconnected = 0
    // Sent before it was ejected.
    if (this.isEjected(nowMs)) return
    const clients = this.#clients
    clients.failed(clientId, nowMs, sinceMs)
    this.#isOfSeveral = isOtherAtWork(sinceMs, (id) => id === clientId)
    this.#lastFailureMs = nowMs
    this.#failures++
    const isMany = this.#failures >= failures
    const servesOthers = clients.servesAny(sinceMs)
    // Of a backend that has just answered, one client's failure says little.
    const isBelieved = !servesOthers || clients.failures(this.answeredMs) > 1
    if (isBelieved && (isMany || !failure.isAnswer)) this.restsUntilMs = nowMs + restMs
    if (!isMany || servesOthers || nowMs - this.answeredMs < restMs) return
    const hasFailed = (id: string): boolean => clients.hasFailed(id, sinceMs)
    if (clients.failures(sinceMs) >= failures || !isOtherAtWork(sinceMs, hasFailed))
      this.#goDown(failure.mayEject, nowMs)
  }

  /** The request of a client was answered. */
  answered(clientId: string, nowMs: number): void {
    const hadFailed = this.#clients.served(clientId, nowMs)
    this.answeredMs = nowMs
    if (!this.isClear) this.#recover(hadFailed, nowMs)
  }

  /** A connection could be made, which says something of a backend to which none could. */
  connected(nowMs: number): void {
    if (this.isUnreachable && !this.isClear) this.#recover(true, nowMs)
  }

  /** cause: why a check failed; undefined: it was answered well. */
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

  /** Nothing speaks against it. */
  get isWell(): boolean {
    return this.restsUntilMs === undefined && this.ejectedUntilMs === undefined && !this.failsChecks
  }

  /** A gateway is of use by it, as far as is known here. Its checks decide, where it has any: no client brings about what they find. */
  get isUsable(): boolean {
    if (this.#checks !== undefined) return !this.failsChecks && !this.isUnknown
    return !this.isDown && !this.isUnreachable
  }

  /** It gets no request while others do. */
  isOut(nowMs: number): boolean {
    return this.failsChecks || this.isEjected(nowMs)
  }

  /** For having failed requests. When its time is over one request decides, or a check. */
  isEjected(nowMs: number): boolean {
    if (this.ejectedUntilMs === undefined) return false
    if (nowMs < this.ejectedUntilMs || this.#checks !== undefined) return true
    this.ejectedUntilMs = undefined
    this.restsUntilMs = nowMs
    this.#isOnProbation = true
    return false
  }

  /** The client's latest request here has failed, and it is not the only client: another's shows better how it is. */
  isBetterTriedByOthers(clientId: string, nowMs: number): boolean {
    return this.#isOfSeveral && this.#clients.hasFailed(clientId, nowMs - this.#eject.withinMs)
  }

  /** Whether it has since then served or failed a client that is none of those. */
  hasOther(sinceMs: number, isOneOfThose: (clientId: string) => boolean): boolean {
    return this.#clients.hasOther(sinceMs, isOneOfThose)
  }

  /** isDoubtful: what shows that it is well may be the one good answer between two failures. */
  #recover(isDoubtful: boolean, nowMs: number): void {
    if (this.isOut(nowMs)) return
    const isTooSoon = nowMs - this.#lastFailureMs < restMs && !this.#isOnProbation
    if (!(this.isDown && isDoubtful && isTooSoon)) this.#comeBack(nowMs)
  }

  #blame(cause: string, nowMs: number): void {
    this.isClear = false
    if (this.fault === undefined) this.faultSinceMs = nowMs
    this.fault = cause
  }

  #goDown(mayEject: boolean, nowMs: number): void {
    this.isDown = true
    if (!mayEject) return
    const { forMs, growth, maxForMs } = this.#eject
    // Well for longer than it was out: what was before is forgotten.
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
    this.isClear = true
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
