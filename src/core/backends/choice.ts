/** Chooses the backend of a request among those that have a free permit. */
import type { Config } from '../../config/config.ts'
import { isIdempotent } from '../rules/backend-failure.ts'
import type { Backend } from './backend.ts'
import { restMs, type Standing } from './standing.ts'

/** Extra rest of a failed backend for requests that may not be sent twice, or whose client has failed there: other requests try it first. */
const moreForOthersMs = 1_000

/** A request that asks for a permit. */
export interface Asker {
  readonly clientId: string
  readonly method: string
  /** The backend where the request has just failed. */
  readonly avoid?: Backend | undefined
}

export class Choice {
  readonly #backends: readonly Backend[]
  readonly #options: Pick<Config['upstream'], 'balance' | 'connections'>
  #turn = 0

  constructor(
    backends: readonly Backend[],
    options: Pick<Config['upstream'], 'balance' | 'connections'>,
  ) {
    this.#backends = backends
    this.#options = options
  }

  /**
   * Prefers healthy backends to resting ones and those to ejected ones, even if the request then has to wait.
   * Yet one request a second tries a resting backend. Any other backend of equal health is preferred to `avoid` of the asker.
   * permits: how many the client already holds, of all backends.
   */
  next(asker: Asker, permits: number): Backend | undefined {
    const backends = this.#backends
    const { connections, balance } = this.#options
    const areWell = backends.every(isWell)
    const nowMs = areWell ? 0 : performance.now()
    const level = areWell
      ? 0
      : Math.min(...backends.map(({ standing }) => levelOf(standing, nowMs)))
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
        if (isDue(backend.standing, nowMs, asker)) rank = -1
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

/**
 * The last eighth of the permits is reserved for clients that hold few: fewer than a quarter of what is free.
 * So a few clients that keep their permits for long leave one for a client without any.
 */
const mayTake = (permits: number, free: number, connections: number): boolean =>
  8 * free > connections || 4 * permits < free

const isWell = ({ standing }: Backend): boolean => standing.isWell

const levelOf = (standing: Standing, nowMs: number): number => {
  if (standing.isOut(nowMs)) return 2
  return standing.isWell ? 0 : 1
}

/** The backend's rest is over, and this request may try it. */
function isDue(standing: Standing, nowMs: number, { method, clientId }: Asker): boolean {
  if (standing.restsUntilMs === undefined || standing.isOut(nowMs)) return false
  if (nowMs < standing.restsUntilMs) return false
  const isGoodToTry = isIdempotent(method) && !standing.isBetterTriedByOthers(clientId, nowMs)
  return isGoodToTry || nowMs >= standing.restsUntilMs + moreForOthersMs
}
