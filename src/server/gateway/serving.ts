/** Serves requests, alone or as one of several workers. */
import { pid } from 'node:process'
import type { WorkerState } from '../../admin/operation.ts'
import type { Balancer } from '../../core/backends/balancer.ts'
import { healthOf, type BackendHealth } from '../../core/backends/backend.ts'
import { releaseClients } from '../../config/clients/release.ts'
import type { Config, ListenAddress } from '../../config/config.ts'
import { createSecondSampler, processNow } from '../../insight/live/second.ts'
import type { ProcessNow, Second } from '../../insight/live/second.ts'
import { JwtVerifier } from '../../core/credentials/jwt-verifier.ts'
import { embeddedHealth } from '../../state/contract.ts'
import type { CallHandlers } from '../../state/calls.ts'
import { readTokenBy } from './read-token.ts'
import { FrontDoor } from './front-door.ts'
import { createLastingParts, type LastingParts, type LastingPartsOptions } from './lasting-parts.ts'
import type { Prepared } from './reloader.ts'
import { createRequestPolicy, type RequestPolicy } from './request-policy.ts'
import { upstreamFor, type Upstream } from './upstream.ts'
import type { WorkerCalls, WorkerFacts, WorkerLink } from './worker-link.ts'

export class Serving implements WorkerLink {
  readonly number: number
  readonly pid = pid
  readonly restarts = 0
  /** Written by listen, drain and close. */
  state: WorkerState['state'] = 'starting'
  /** Written by listen. */
  sinceMs: number | undefined
  /** Answers to what the gateway asks of each worker. */
  readonly answers: CallHandlers<WorkerCalls> = {
    recent: (query) => this.parts.recent.find(query),
    readToken: readTokenBy(() => this.#revision.verifier),
    standing: ({ clientId, keyId }) => ({
      taken: this.parts.turns.takenBy(clientId),
      strikes: this.parts.bans.strikesOf(keyId),
    }),
  }
  readonly questions: WorkerLink['questions'] = {
    call: async (name, argument) => this.answers[name](argument),
  }
  readonly #stores: LastingPartsOptions['stores']
  readonly parts: LastingParts
  readonly #door: FrontDoor
  /** Returns what happened since the last call; at: Unix time of the second that it is reported as. */
  readonly takeSecond: (at: number) => Second
  /** Revision in force. Written by #take alone. */
  #revision: Revision

  constructor(options: LastingPartsOptions) {
    const { config, stores, log, metrics } = options
    this.number = options.number ?? 1
    this.#stores = stores
    this.parts = createLastingParts(options)
    this.#revision = new Revision(config, this.parts)
    this.#revision.upstream.checks.start()
    const { tally, recent, deprecated, bans } = this.parts
    metrics.watchBackends(() => this.balancer)
    metrics.watchBans(() => bans.runningCount)
    metrics.watchUsage(() => tally.lost)
    metrics.watchLog(log.lostLines)
    metrics.watchLogFault(() => Number(log.fault() !== undefined))
    this.takeSecond = createSecondSampler(metrics, tally, recent, deprecated)
    this.#door = new FrontDoor(config, this.#revision.policy, this.parts)
  }

  get now(): ProcessNow {
    return processNow(this.parts.metrics)
  }

  /** That of the configuration in force. */
  get balancer(): Balancer {
    return this.#revision.upstream.balancer
  }

  get facts(): WorkerFacts {
    // A copy: the store's own object holds more, and facts must be plain data to be sent to another process.
    const { available, cause, refusal, warning } = this.#stores.health ?? embeddedHealth
    return {
      store: { available, cause, refusal, warning },
      keySetFault: this.#revision.verifier?.fault,
      logFault: this.parts.log.fault(),
      shed: this.parts.load.shed,
      backends: this.balancer.backends.map(healthOf),
    }
  }

  /** Resolves when the stores have answered and the issuer's keys are there, or their time is up; rejects when a store refuses this gateway. */
  async ready(): Promise<void> {
    const { config } = this.#revision
    await this.parts.tracing.load(config.telemetry)
    this.parts.tracing.use(config.telemetry)
    await this.#stores.ready()
    await Promise.all([
      this.parts.bans.ready(config.store.timeoutMs),
      this.#revision.verifier?.ready,
    ])
  }

  /** Takes requests; fd: a bound socket of this process to listen on, instead of server.listen. */
  async listen(fd?: number): Promise<ListenAddress> {
    const address = await this.#door.listen(fd)
    this.state = 'listening'
    this.sinceMs = Date.now()
    return address
  }

  async prepare(config: Config): Promise<Prepared> {
    if (this.state === 'draining' || this.state === 'ended')
      throw new Error('the gateway is draining; it takes no other config')
    const before = this.#revision
    const letIn = this.#door.prepare(config)
    const next = new Revision(config, this.parts, before)
    const abort = (): void => next.abandon(before)
    const ready = [next.readyAfter(before), this.parts.tracing.load(config.telemetry)]
    await Promise.all(ready).catch((error: unknown) => {
      abort()
      throw error
    })
    return {
      // A commit that comes too late must leave nothing running.
      commit: () => (this.state === 'ended' ? abort() : this.#take(next, letIn)),
      abort,
    }
  }

  /** Ends what is in flight within server.timeouts.drain, or atMostMs if that is less, and hands quota back. idleMs: see FrontDoor. */
  async drain({ idleMs, atMostMs = Infinity }: { idleMs: number; atMostMs?: number }) {
    this.state = 'draining'
    const { log, lessee, shadow } = this.parts
    const timeoutMs = Math.min(this.#revision.config.server.timeouts.drainMs, atMostMs)
    log.draining({ inFlight: this.#door.inFlight, timeoutMs })
    const cutOff = await this.#door.drain({ timeoutMs, idleMs })
    await Promise.all([lessee.drain(), shadow?.drain()])
    log.drained({ cutOff })
  }

  /** Closes the connections to backends and stores; the log stays open. */
  async close(): Promise<void> {
    this.state = 'ended'
    this.#revision.verifier?.close()
    this.#door.close()
    this.parts.load.close()
    this.parts.tunnels.cut()
    this.#revision.upstream.close()
    await this.parts.bans.close().catch(() => {})
    await this.parts.tracing.close()
    await this.#stores.close()
  }

  probeBackends(): Promise<readonly BackendHealth[]> {
    return this.#revision.upstream.checks.probe()
  }

  #take(next: Revision, letIn: () => void): void {
    const before = this.#revision
    this.#revision = next
    this.parts.use(next.config)
    if (next.upstream !== before.upstream) {
      next.upstream.checks.start()
      before.upstream.close()
    }
    this.#door.use(next.policy, next.config)
    letIn()
    if (before.verifier !== next.verifier) before.verifier?.retire()
    releaseClients(before.config)
  }
}

/** All that belongs to one configuration, built in one call; parts that would be equal are taken over from the one before. */
class Revision {
  readonly config: Config
  readonly upstream: Upstream
  /** undefined: tokens are not accepted. */
  readonly verifier: JwtVerifier | undefined
  readonly policy: RequestPolicy

  /** Throws an Error that names key and file when a file for TLS, or jwt.jwksFile, cannot be used; then nothing of it is left. */
  constructor(config: Config, parts: LastingParts, before?: Revision) {
    this.config = config
    this.upstream = upstreamFor(config, parts, before?.upstream)
    try {
      const { upstream } = this
      this.verifier = verifierFor(config, parts, before?.verifier)
      this.policy = createRequestPolicy(config, parts, { upstream, verifier: this.verifier })
    } catch (error) {
      this.abandon(before)
      throw error
    }
  }

  /** Resolves when everything it needs is there; rejects where keys come from another place than before and are missing, as valid tokens would be refused. */
  async readyAfter(before: Revision): Promise<void> {
    const { upstream } = this
    await Promise.all([
      this.verifier?.ready,
      upstream === before.upstream || upstream.checks.newcomers(),
    ])
    const fault = this.verifier === before.verifier ? undefined : this.verifier?.fault
    if (fault === undefined) return
    const { jwksUri } = this.config.jwt ?? {}
    throw new Error(
      `jwt.jwksUri: no keys can be had from ${jwksUri} (${fault.cause}); see that it answers, then reload`,
    )
  }

  /** Closes the parts of a revision that was never in force, except those shared with `other`. */
  abandon(other: Revision | undefined): void {
    if (this.verifier !== other?.verifier) this.verifier?.close()
    if (this.upstream !== other?.upstream) this.upstream.close()
  }
}

/** Returns the verifier of `before` where a new one would be equal. */
function verifierFor(
  { jwt }: Config,
  { log, metrics }: LastingParts,
  before: JwtVerifier | undefined,
): JwtVerifier | undefined {
  if (jwt === undefined || before?.isFor(jwt) === true) return jwt && before
  return new JwtVerifier(jwt, {
    keySetFetched: (fault) => {
      metrics.keySetFetched(fault === undefined)
      if (fault !== undefined) log.keySetFailed({ cause: fault.cause })
    },
    unavailable: (reason) => metrics.credentialUnavailable(reason),
  })
}
