/** Serves requests, alone or as one of several workers. */
import type { Balancer } from '../../core/backends/balancer.ts'
import type { OperatorBans } from '../../core/bans/operator-bans.ts'
import type { BackendHealth } from '../../core/backends/health.ts'
import { releaseClients } from '../../config/clients/release.ts'
import type { Config, ListenAddress } from '../../config/config.ts'
import {
  createSecondSampler,
  processNow,
  type ProcessNow,
  type Second,
} from '../../insight/live/second.ts'
import type { RecentDecisions } from '../../core/record/recent.ts'
import type { KeySetFault } from '../../core/credentials/jwt-verifier.ts'
import type { CallerIds, CallerStanding } from '../../insight/explain/question.ts'
import { readTokenBy } from './read-token.ts'
import { FrontDoor } from './front-door.ts'
import { createLastingParts, type LastingPartsOptions } from './lasting-parts.ts'
import type { LoadWatch } from './load-watch.ts'
import type { Prepared, Reloadable } from './reload.ts'
import { Revision, type RevisionParts } from './revision.ts'
import type { State } from '../../state/contract.ts'
import type { UpstreamParts } from './upstream.ts'
import { Upstreams } from './upstreams.ts'

export { configNames } from './lasting-parts.ts'

/** onBackends: called when the state of a backend changes, for a supervisor. */
export interface ServingParts extends LastingPartsOptions, UpstreamParts {
  /** Called each time the key set of the token issuer in force was fetched, or could not be, and with each other issuer. */
  onKeySet(fault: KeySetFault | undefined): void
}

export const createServing = (parts: ServingParts): Serving => new Serving(parts)

export class Serving implements Reloadable {
  readonly #stores: State
  readonly #parts: RevisionParts
  readonly #onKeySet: ServingParts['onKeySet']
  readonly #upstreams: Upstreams
  readonly #door: FrontDoor
  /** Returns what happened since the last call; at: Unix time of the second that it is reported as. */
  readonly takeSecond: (at: number) => Second
  readonly now: () => ProcessNow
  /** The caller's standing in this process. */
  readonly standing = ({ clientId, keyId }: CallerIds): CallerStanding => ({
    taken: this.#parts.turns.takenBy(clientId),
    strikes: this.#parts.bans.knownStrikes(keyId),
  })
  /** Reads tokens with the verifier in force. */
  readonly readToken = readTokenBy(() => this.#revision.verifier)
  /** Revision in force. Written by #take alone. */
  #revision: Revision
  #state: 'open' | 'draining' | 'closed' = 'open'

  constructor(parts: ServingParts) {
    const { config, stores, onKeySet, onBackends } = parts
    this.#stores = stores
    this.#onKeySet = onKeySet
    const reportKeySet = (): void => onKeySet(this.#revision.verifier?.fault)
    this.#parts = { ...createLastingParts(parts), onBackends, onKeySet: reportKeySet }
    this.#revision = new Revision(config, this.#parts)
    this.#upstreams = new Upstreams(this.#revision.upstream)
    const { metrics, tally } = this.#parts
    metrics.watchBackends(this.#upstreams)
    metrics.watchUsage(() => tally.lost)
    metrics.watchLog(parts.log.lostLines)
    this.takeSecond = createSecondSampler(metrics, tally)
    this.now = () => processNow(metrics)
    this.#door = new FrontDoor(config, this.#revision.policy, this.#parts, this.#upstreams)
  }

  /** Resolves when the stores have answered and the issuer's keys are there, or their time is up; rejects when a store refuses this gateway. */
  async ready(): Promise<void> {
    const { config } = this.#revision
    await this.#parts.tracing.load(config.telemetry)
    this.#parts.tracing.use(config.telemetry)
    await this.#stores.ready()
    await Promise.all([this.#parts.bans.ready(), this.#revision.verifier?.ready()])
  }

  /** Takes requests; fd: a bound socket of this process to listen on, instead of server.listen. */
  listen(fd?: number): Promise<ListenAddress> {
    return this.#door.listen(fd)
  }

  async prepare(config: Config): Promise<Prepared> {
    if (this.#state !== 'open') throw new Error('the gateway is draining; it takes no other config')
    const before = this.#revision
    const letIn = this.#door.prepare(config)
    const next = new Revision(config, this.#parts, before)
    const abort = (): void => next.abandon(before)
    const ready = [next.readyAfter(before), this.#parts.tracing.load(config.telemetry)]
    await Promise.all(ready).catch((error: unknown) => {
      abort()
      throw error
    })
    return {
      revision: config.revision,
      // A commit that comes too late must leave nothing running.
      commit: () => (this.#state === 'closed' ? abort() : this.#take(next, letIn)),
      abort,
    }
  }

  /** Ends what is in flight within server.timeouts.drain, or atMostMs if that is less, and hands quota back. idleMs: see FrontDoor. */
  async drain({ idleMs, atMostMs = Infinity }: { idleMs: number; atMostMs?: number }) {
    this.#state = 'draining'
    const { log, lessee, shadow } = this.#parts
    const timeoutMs = Math.min(this.#revision.config.server.timeouts.drainMs, atMostMs)
    log.draining({ inFlight: this.#door.inFlight, timeoutMs })
    const cutOff = await this.#door.drain({ timeoutMs, idleMs })
    await Promise.all([lessee.drain(), shadow?.drain()])
    log.drained({ cutOff })
  }

  /** Closes the connections to backends and stores; the log stays open. */
  async close(): Promise<void> {
    this.#state = 'closed'
    this.#revision.verifier?.close()
    this.#door.close()
    this.load.close()
    await Promise.allSettled([this.#upstreams.close(), this.#parts.bans.close()])
    await this.#parts.tracing.close()
    await this.#stores.close()
  }

  /** Number of keys banned now. */
  get bannedKeys(): number {
    return this.#parts.bans.size
  }

  get recent(): RecentDecisions {
    return this.#parts.recent
  }

  get operatorBans(): OperatorBans {
    return this.#parts.bans.operators
  }

  /** Balancer of the current backends, as are the next. */
  get balancer(): Balancer {
    return this.#upstreams.current.balancer
  }

  probeBackends(): Promise<readonly BackendHealth[]> {
    return this.#upstreams.current.probe()
  }

  get load(): LoadWatch {
    return this.#parts.load
  }

  #take(next: Revision, letIn: () => void): void {
    const before = this.#revision
    this.#revision = next
    this.#parts.use(next.config)
    this.#upstreams.use(next.upstream, () => this.#door.upstreamsNeeded())
    this.#door.use(next.policy, next.config)
    letIn()
    if (before.verifier !== next.verifier) before.verifier?.retire()
    releaseClients(before.config)
    this.#onKeySet(next.verifier?.fault)
    this.#parts.onBackends?.()
  }
}
