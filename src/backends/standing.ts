/** How one backend fares, from what becomes of its requests and checks: when it is spared, left out and taken back. Time is an argument. */
import type { Config } from '../config/config.ts'

export type EjectOptions = Config['upstream']['eject']
export type CheckOptions = Pick<NonNullable<Config['upstream']['health']>, 'down' | 'up'>

/** After a failure others are preferred for so long; then one request a second shows how it is. */
export const restMs = 1_000

const notChecked = 'not checked yet'

/** Who sees a failure: a client can bring about some by what it asks for. isAlone: no other was served lately. */
export interface Witness {
  readonly clientId: string
  readonly isAlone: boolean
}

export interface Failure {
  readonly cause: string
  /** unreachable: no connection could be made. status: it answered, and so fast that others need not be preferred. */
  readonly kind: 'unreachable' | 'silent or broken' | 'status'
  /** undefined: nobody has brought it about, as where no connection is made. */
  readonly witness?: Witness | undefined
}

/** What failed within one window, which the first failure opens. */
interface Window {
  readonly startMs: number
  failures: number
  outcomes: number
  clientId?: string
  /** Another one has failed, too, than a request of `clientId`. */
  isOfSeveral: boolean
}

export class Standing {
  /** Nothing has failed lately: there is nothing to forget, and nothing speaks against it. */
  isClear = true
  /** Failed so often that it is to be named. */
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
  /** These two are written by use. */
  #eject: EjectOptions
  #checks: CheckOptions | undefined
  #inARow = 0
  #window: Window | undefined
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

  /** checks: of a backend that is asked by itself. */
  constructor(eject: EjectOptions, checks?: CheckOptions) {
    this.#eject = eject
    this.#checks = checks
    if (checks === undefined) return
    this.#blame(notChecked, this.faultSinceMs)
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

  /** A request has failed; mayEject: not too many others are ejected. */
  failed({ cause, kind, mayEject, witness }: Failure & { mayEject: boolean }, nowMs: number): void {
    this.#blame(cause, nowMs)
    this.isUnreachable = kind === 'unreachable'
    // Sent before it was ejected.
    if (this.isEjected(nowMs)) return
    if (kind !== 'status') this.restsUntilMs = nowMs + restMs
    this.#inARow++
    const window = this.#windowAt(nowMs)
    window.failures++
    window.outcomes++
    if (!isBelieved(witness, window)) return
    this.#lastFailureMs = nowMs
    if (!this.isDown && !this.#hasFailedEnough(window)) return
    this.isDown = true
    if (mayEject) this.#ejectAt(nowMs)
  }

  /** A request was answered. Of a clear one nothing needs to be told. */
  answered(nowMs: number): void {
    if (this.isOut(nowMs)) return
    this.#inARow = 0
    if (!this.isDown) {
      this.restsUntilMs = undefined
      this.fault = undefined
      this.isUnreachable = false
      this.#windowAt(nowMs).outcomes++
      this.isClear = this.#window?.failures === 0
    } else if (this.#isOnProbation || nowMs - this.#lastFailureMs >= restMs) {
      // One that fails every other request is not taken back by the one between.
      this.#comeBack(nowMs)
    }
  }

  /** A connection could be made, which says something of a backend to which none could. */
  connected(nowMs: number): void {
    if (this.isUnreachable && !this.isClear) this.answered(nowMs)
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

  /** From then on it is worth a request, though it may be down: if nobody tries it, nobody learns that it is well again. */
  get usableAtMs(): number {
    if (this.failsChecks || this.isUnreachable) return Infinity
    return this.ejectedUntilMs ?? this.#lastFailureMs + this.#eject.forMs
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

  #hasFailedEnough({ failures, outcomes }: Window): boolean {
    const enough = this.#eject.failures
    return this.#inARow >= enough || (failures >= enough && 2 * failures >= outcomes)
  }

  #windowAt(nowMs: number): Window {
    const window = this.#window
    if (window !== undefined && nowMs - window.startMs < this.#eject.withinMs) return window
    return (this.#window = { startMs: nowMs, failures: 0, outcomes: 0, isOfSeveral: false })
  }

  #blame(cause: string, nowMs: number): void {
    this.isClear = false
    if (this.fault === undefined) this.faultSinceMs = nowMs
    this.fault = cause
  }

  #ejectAt(nowMs: number): void {
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
    this.isDown = false
    this.isClear = true
    this.fault = undefined
    this.isUnreachable = false
    this.ejectedUntilMs = undefined
    this.restsUntilMs = undefined
    this.failsChecks = false
    this.#inARow = 0
    this.#window = undefined
    this.#isOnProbation = false
    this.#backSinceMs = nowMs
  }
}

/** One client takes no backend from the others: of several that are served two have to see it fail. */
function isBelieved(witness: Witness | undefined, window: Window): boolean {
  if (witness === undefined) return true
  window.clientId ??= witness.clientId
  window.isOfSeveral ||= window.clientId !== witness.clientId
  return window.isOfSeveral || witness.isAlone
}
