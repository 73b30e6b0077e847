/** Gives each request a permit of the backend that it goes to, or a place in line, and hears how it went. */
import type { Config } from '../../config/config.ts'
import { couldNotConnect, isGatewayFault, speaksAgainstBackend } from '../rules/backend-failure.ts'
import type { Backend } from './backend.ts'
import { Choice, type Asker } from './choice.ts'
import { clockTickMs, CoarseClock } from './coarse-clock.ts'
import { Line, type Place } from './line.ts'
import { countOutcome, type Outcome, type Sender } from './outcomes.ts'
import type { ClientFailure } from './standing.ts'

/** connections: permits of each backend. */
export type BalancerOptions = Pick<
  Config['upstream'],
  'balance' | 'breaker' | 'connections' | 'eject'
>

/** A backend that answers too much is named when it has not done so for this long. */
const NAMED_EVERY_MS = 60_000

/** Told once per change. */
export interface BackendObserver {
  /** forMs: it is left out for so long; undefined: it is not. */
  down(line: { backend: string; cause: string; forMs: number | undefined }): void
  up(line: { backend: string; downMs: number }): void
  /** It sent what nobody had asked for. */
  surplus(line: { backend: string }): void
  /** What is known of one that is down, or was, or was not seen before. */
  changed(): void
}

export class Balancer {
  readonly backends: readonly Backend[]
  readonly #options: BalancerOptions
  readonly #observer: BackendObserver | undefined
  readonly #choice: Choice
  readonly #line = new Line()
  /** Permits by client, one for each request and tunnel under way. Clients without any are not kept. */
  readonly #permits = new Map<string, number>()
  readonly #clock = new CoarseClock((nowMs) => this.#onTick(nowMs))

  /** Throws when there are no backends. */
  constructor(backends: readonly Backend[], options: BalancerOptions, observer?: BackendObserver) {
    if (backends.length === 0) throw new Error('a balancer needs at least one backend')
    this.backends = backends
    this.#options = options
    this.#observer = observer
    this.#choice = new Choice(backends, options)
  }

  /** Requests that wait. */
  get waiting(): number {
    return this.#line.length
  }

  /**
   * A permit, to be given back by exactly one report; undefined: the request has to wait.
   * Of another backend than `avoid` where there is one. A client's requests that wait go before its later ones; other
   * clients wait because they hold too many, or because there is no permit for anybody.
   */
  take(asker: Asker, avoid?: Backend): Backend | undefined {
    return this.#line.has(asker.clientId) ? undefined : this.#grant(asker, avoid)
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
  report(backend: Backend, outcome: Outcome, sender: Sender): void {
    this.note(backend, outcome, sender)
    this.giveBack(backend, sender.clientId)
  }

  /** How it went so far, of what keeps its permit: a tunnel has been opened. */
  note(backend: Backend, outcome: Outcome, { clientId, startedMs }: Sender): void {
    countOutcome(backend.outcomes, outcome)
    if (outcome === 'abandoned') return
    if (typeof outcome !== 'number' && couldNotConnect(outcome))
      return this.unreachable(backend, outcome.cause)
    if (typeof outcome !== 'number' && !speaksAgainstBackend(outcome)) return
    const nowMs = performance.now()
    backend.attemptSeconds.observe((nowMs - startedMs) / 1000)
    if (typeof outcome !== 'number') this.#failed(backend, clientId, outcome.cause, false)
    else if (isGatewayFault(outcome)) this.#failed(backend, clientId, `answers ${outcome}`, true)
    else if (backend.standing.isClear) backend.standing.answered(clientId, nowMs)
    else this.#judge(backend, (atMs) => backend.standing.answered(clientId, atMs))
  }

  /** No connection could be made: a request has found it so, or whoever wants to know. */
  unreachable(backend: Backend, cause: string): void {
    this.#judge(backend, (nowMs) =>
      backend.standing.unreachable({ cause, mayEject: this.#mayEject(backend, nowMs) }, nowMs),
    )
  }

  /** A connection could be made. */
  connected(backend: Backend): void {
    if (!backend.standing.isClear)
      this.#judge(backend, (nowMs) => backend.standing.connected(nowMs))
  }

  /** A connection was closed since it had sent what nobody asked for. */
  surplus({ name, surplus }: Backend): void {
    const nowMs = performance.now()
    if (nowMs - surplus.lastMs >= NAMED_EVERY_MS) this.#observer?.surplus({ backend: name })
    surplus.connections++
    surplus.lastMs = nowMs
  }

  /** What a health check has found. */
  checked(backend: Backend, cause: string | undefined): void {
    this.#judge(backend, (nowMs) => backend.standing.checked(cause, nowMs))
  }

  /** Of what was noted before. */
  giveBack(backend: Backend, clientId: string): void {
    backend.inUse--
    const permits = this.#permitsOf(clientId) - 1
    if (permits > 0) this.#permits.set(clientId, permits)
    else this.#permits.delete(clientId)
    if (this.#line.length > 0) this.#serveLine()
  }

  #failed(backend: Backend, clientId: string, cause: string, isAnswer: boolean): void {
    this.#judge(backend, (nowMs) => {
      const mayEject = this.#mayEject(backend, nowMs)
      const isOtherAtWork: ClientFailure['isOtherAtWork'] = (sinceMs, isOneOfThose) =>
        this.backends.some(({ standing }) => standing.hasOther(sinceMs, isOneOfThose))
      backend.standing.failed({ cause, clientId, isAnswer, mayEject, isOtherAtWork }, nowMs)
    })
  }

  #mayEject(backend: Backend, nowMs: number): boolean {
    const { backends } = this
    const isOtherOut = (other: Backend): boolean =>
      other !== backend && other.standing.isEjected(nowMs)
    const atMost = Math.floor(this.#options.eject.atMost * backends.length)
    return backends.filter(isOtherOut).length < atMost
  }

  #judge({ name, standing }: Backend, act: (nowMs: number) => void): void {
    const nowMs = performance.now()
    const { isDown, isUnreachable, faultSinceMs } = standing
    act(nowMs)
    if (isDown || standing.isDown || isUnreachable || standing.isUnreachable)
      this.#observer?.changed()
    if (isDown === standing.isDown) return
    if (isDown)
      return this.#observer?.up({ backend: name, downMs: Math.round(nowMs - faultSinceMs) })
    const { fault = '', ejectedUntilMs } = standing
    const forMs = ejectedUntilMs === undefined ? undefined : Math.round(ejectedUntilMs - nowMs)
    this.#observer?.down({ backend: name, cause: fault, forMs })
  }

  #serveLine(): void {
    let place = this.#line.first
    while (place !== undefined) {
      const { waiter, avoid } = place
      const backend = this.#grant(waiter, avoid)
      if (backend !== undefined) {
        this.#line.serve(place)
        waiter.onPermit(backend)
        place = this.#line.first
      } else if (this.#permitsOf(waiter.clientId) > 0) place = this.#line.after(place)
      // Whoever holds none goes before all others: there is no permit for them either.
      else return
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

  #grant(asker: Asker, avoid: Backend | undefined): Backend | undefined {
    const permits = this.#permitsOf(asker.clientId)
    const backend = this.#choice.next(asker, permits, avoid)
    if (backend === undefined) return undefined
    backend.inUse++
    this.#permits.set(asker.clientId, permits + 1)
    return backend
  }

  #permitsOf(clientId: string): number {
    return this.#permits.get(clientId) ?? 0
  }
}
