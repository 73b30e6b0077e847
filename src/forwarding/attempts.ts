/** The one policy of which backend a request goes to and whether it goes to another after a failure, for all engines and for upgrades. */
import type { Backend } from '../backends/backend.ts'
import type { Balancer, Outcome } from '../backends/balancer.ts'
import { mayRepeat, type BackendFailure, type FailedAttempt } from '../rules/backend-failure.ts'
import type {
  AttemptSink,
  Engine,
  ForwardHandle,
  ForwardJob,
  ForwardSink,
  UpgradeEngine,
  UpgradeJob,
} from './forwarder.ts'

/** Where a request goes after its first attempt has failed; undefined: nowhere. */
function nextBackend(
  balancer: Balancer,
  backend: Backend,
  method: string,
  failed: FailedAttempt,
): Backend | undefined {
  if (!mayRepeat(method, failed)) return undefined
  // There is no use in connecting to the only backend again at once.
  if (failed.phase !== 'sent' && balancer.backends.length === 1) return undefined
  return balancer.pick(backend)
}

export class Forwarder {
  readonly balancer: Balancer
  readonly engine: Engine
  closing = false
  #underWay = 0
  #whenNoneIs: (() => void) | undefined

  constructor(balancer: Balancer, engine: Engine) {
    this.balancer = balancer
    this.engine = engine
  }

  /** Starts the request; never throws, all news goes to the sink. */
  forward(job: ForwardJob, sink: ForwardSink): ForwardHandle {
    this.#underWay++
    return new Attempts(job, sink, this)
  }

  settled(): void {
    this.#underWay--
    if (this.#underWay === 0) this.#whenNoneIs?.()
  }

  /** Lets what is under way finish and takes nothing new. */
  async close(): Promise<void> {
    this.closing = true
    if (this.#underWay > 0) await new Promise<void>((resolve) => (this.#whenNoneIs = resolve))
    await this.engine.close()
  }
}

/** One request: the pipeline's handle and the engine's sink in one object, since this is the hot path. */
class Attempts implements ForwardHandle, AttemptSink {
  readonly #job: ForwardJob
  readonly #sink: ForwardSink
  readonly #forwarder: Forwarder
  #backend: Backend
  /** Of the attempt under way; undefined between two. */
  #handle: ForwardHandle | undefined
  #status: number | undefined
  #repeated = false
  /** An attempt that failed may have been seen by its backend. */
  #reached = false
  #settled = false

  constructor(job: ForwardJob, sink: ForwardSink, forwarder: Forwarder) {
    this.#job = job
    this.#sink = sink
    this.#forwarder = forwarder
    this.#backend = forwarder.balancer.pick()
    if (forwarder.closing) queueMicrotask(() => this.#refuse())
    else this.#send()
  }

  abort(): boolean {
    if (!this.#settled) this.#settle('abandoned')
    const isSeen = this.#handle?.abort() ?? false
    return isSeen || this.#reached
  }

  resume(): void {
    this.#handle?.resume()
  }

  head(status: number, headers: string[]): void {
    this.#status = status
    this.#sink.head(status, headers)
  }

  data(chunk: Buffer): boolean {
    return this.#sink.data(chunk)
  }

  end(): void {
    this.#settle(this.#status ?? 'abandoned')
    this.#sink.end()
  }

  fail(failed: FailedAttempt): void {
    const { balancer } = this.#forwarder
    balancer.report(this.#backend, failed)
    if (!this.#repeated) {
      const next = nextBackend(balancer, this.#backend, this.#job.method, failed)
      if (next !== undefined) return this.#repeat(next, failed)
    }
    this.#finish()
    this.#sink.fail(failed)
  }

  #send(): void {
    this.#sink.sentTo(this.#backend.name)
    this.#handle = this.#forwarder.engine.send(this.#backend, this.#job, this)
  }

  #repeat(backend: Backend, { phase }: FailedAttempt): void {
    this.#repeated = true
    this.#reached = phase === 'sent'
    this.#backend = backend
    this.#handle = undefined
    // The engine is still cleaning up after the failure when it reports it.
    setImmediate(() => {
      if (!this.#settled) this.#send()
    })
  }

  #refuse(): void {
    if (this.#settled) return
    this.#settle('abandoned')
    this.#sink.fail({ kind: 'unreachable', cause: 'the gateway is closing' })
  }

  #settle(outcome: Outcome): void {
    this.#forwarder.balancer.report(this.#backend, outcome)
    this.#finish()
  }

  #finish(): void {
    this.#settled = true
    this.#forwarder.settled()
  }
}

export type Upgrader = ReturnType<typeof createUpgrader>

export function createUpgrader(balancer: Balancer, engine: UpgradeEngine) {
  const attempt = async (backend: Backend, job: UpgradeJob) => {
    job.sentTo(backend.name)
    const failed = await engine.upgrade(backend, job)
    balancer.report(backend, failed ?? 101)
    return failed
  }
  return {
    /** As of an UpgradeEngine. */
    upgrade: async (job: UpgradeJob): Promise<BackendFailure | undefined> => {
      const backend = balancer.pick()
      const failed = await attempt(backend, job)
      const next = failed && nextBackend(balancer, backend, 'GET', failed)
      return next === undefined ? failed : attempt(next, job)
    },
    close: () => engine.close(),
  }
}
