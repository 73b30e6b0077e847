/** Chooses the backend of each request, and hears how it went. A request holds a permit of its backend; when none is free it waits in line. */
import type { Config } from '../config/config.ts'
import { couldNotConnect, type FailedAttempt } from '../rules/backend-failure.ts'
import type { Backend } from './backend.ts'
import { clockTickMs, CoarseClock } from './coarse-clock.ts'
import { Line, type Place } from './line.ts'

const restMs = 1_000

/** The status of a whole answer; why there is none; or nobody waits for one any more. */
export type Outcome = number | FailedAttempt | 'abandoned'

/** connections: permits of each backend. */
export type BalancerOptions = Pick<Config['upstream'], 'balance' | 'breaker' | 'connections'>

export class Balancer {
  readonly backends: readonly Backend[]
  readonly #options: BalancerOptions
  readonly #line = new Line()
  readonly #clock = new CoarseClock((nowMs) => this.#onTick(nowMs))
  #turn = 0

  /** Throws when there are no backends. */
  constructor(backends: readonly Backend[], options: BalancerOptions) {
    if (backends.length === 0) throw new Error('a balancer needs at least one backend')
    this.backends = backends
    this.#options = options
  }

  /**
   * A permit, to be given back by exactly one report; undefined: the request has to wait.
   * Of another backend than `avoid` where there is one. Nobody overtakes those who wait.
   */
  take(avoid?: Backend): Backend | undefined {
    return this.#line.length > 0 ? undefined : this.#grant(avoid)
  }

  /** Answers whether there is room in the line. If so, onPermit or onOverdue of its waiter follows in a later turn, unless leave() comes before. */
  wait(place: Place, avoid?: Backend): boolean {
    if (this.#line.length >= this.#options.breaker.waiting) return false
    place.avoid = avoid
    place.deadlineMs ??= this.#clock.nowMs + place.longestMs + clockTickMs
    this.#line.enter(place)
    this.#clock.start()
    return true
  }

  /** Nobody waits there any more. */
  leave(place: Place): void {
    this.#line.leave(place)
  }

  /** How it went; gives the permit back. */
  report(backend: Backend, outcome: Outcome): void {
    this.note(backend, outcome)
    this.giveBack(backend)
  }

  /** How it went so far, of what keeps its permit: a tunnel has been opened. */
  note(backend: Backend, outcome: Outcome): void {
    if (outcome === 'abandoned') return
    if (typeof outcome === 'number') backend.fault = undefined
    else if (couldNotConnect(outcome)) {
      backend.fault = outcome.cause
      backend.restsUntilMs = performance.now() + restMs
    }
  }

  /** Of what was noted before. */
  giveBack(backend: Backend): void {
    backend.inUse--
    if (this.#line.length > 0) this.#serveLine()
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#line.length
  }

  #serveLine(): void {
    for (;;) {
      const { first } = this.#line
      if (first === undefined) return
      const backend = this.#grant(first.avoid)
      if (backend === undefined) return
      this.#line.shift()
      first.waiter.onPermit(backend)
    }
  }

  #onTick(nowMs: number): boolean {
    for (const place of this.#line.places()) {
      // Whoever was told before may have ended others.
      if (place.turn === undefined || nowMs < (place.deadlineMs ?? Infinity)) continue
      this.#line.leave(place)
      place.waiter.onOverdue()
    }
    // Time alone can end a backend's rest.
    this.#serveLine()
    return this.#line.length > 0
  }

  #grant(avoid: Backend | undefined): Backend | undefined {
    const backend = this.#choose(avoid)
    if (backend !== undefined) backend.inUse++
    return backend
  }

  /** Of those with a free permit: rather one that is well than one that rests, rather any than the one to avoid. */
  #choose(avoid: Backend | undefined): Backend | undefined {
    const { backends } = this
    const { connections, balance } = this.#options
    let best: Backend | undefined
    let bestRank = Infinity
    const turn = this.#turn
    for (let tried = 0; tried < backends.length; tried++) {
      const at = (turn + tried) % backends.length
      const backend = backends[at]
      if (backend === undefined || backend.inUse >= connections) continue
      let rank = balance === 'least-requests' ? backend.inUse : 0
      if (isResting(backend)) rank += connections
      if (backend === avoid) rank += 2 * connections
      if (rank >= bestRank) continue
      best = backend
      bestRank = rank
      this.#turn = at + 1
    }
    return best
  }
}

function isResting(backend: Backend): boolean {
  if (backend.restsUntilMs === undefined) return false
  if (backend.restsUntilMs > performance.now()) return true
  backend.restsUntilMs = undefined
  return false
}
