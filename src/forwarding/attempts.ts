/** The one policy of which backend a request goes to and whether it goes to another after a failure, for all engines and for upgrades. */
import type { Backend } from '../backends/backend.ts'
import type { Balancer, Outcome } from '../backends/balancer.ts'
import { mayRepeat, type FailedAttempt } from '../rules/backend-failure.ts'
import type {
  AttemptSink,
  Engine,
  ForwardHandle,
  ForwardJob,
  ForwardSink,
  Forwarder,
  UpgradeEngine,
  UpgradeJob,
  Upgrader,
} from './forwarder.ts'

/** Where a request goes after its first attempt has failed; undefined: nowhere. */
function nextBackend(
  balancer: Balancer,
  { backend, method, failed }: { backend: Backend; method: string; failed: FailedAttempt },
): Backend | undefined {
  if (!mayRepeat(method, failed)) return undefined
  // There is no use in connecting to the only backend again at once.
  if (failed.phase !== 'sent' && balancer.backends.length === 1) return undefined
  return balancer.pick(backend)
}

export function createForwarder(balancer: Balancer, engine: Engine): Forwarder {
  const traffic = new Traffic(balancer, engine)
  return {
    forward: (job, sink) => new Attempts(job, sink, traffic),
    close: async () => {
      await traffic.end()
      await engine.close()
    },
  }
}

/** What all requests share. */
class Traffic {
  readonly balancer: Balancer
  readonly engine: Engine
  closing = false
  #underWay = 0
  #whenNoneIs: (() => void) | undefined

  constructor(balancer: Balancer, engine: Engine) {
    this.balancer = balancer
    this.engine = engine
  }

  begun(): void {
    this.#underWay++
  }

  settled(): void {
    this.#underWay--
    if (this.#underWay === 0) this.#whenNoneIs?.()
  }

  async end(): Promise<void> {
    this.closing = true
    if (this.#underWay > 0) await new Promise<void>((resolve) => (this.#whenNoneIs = resolve))
  }
}

/** One request: the pipeline's handle and the engine's sink in one object, since this is the hot path. */
class Attempts implements ForwardHandle, AttemptSink {
  readonly #job: ForwardJob
  readonly #sink: ForwardSink
  readonly #traffic: Traffic
  #backend: Backend
  /** Of the attempt under way; undefined between two. */
  #handle: ForwardHandle | undefined
  #status: number | undefined
  #repeated = false
  /** An attempt that failed may have been seen by its backend. */
  #reached = false
  #settled = false

  constructor(job: ForwardJob, sink: ForwardSink, traffic: Traffic) {
    this.#job = job
    this.#sink = sink
    this.#traffic = traffic
    this.#backend = traffic.balancer.pick()
    traffic.begun()
    if (traffic.closing) queueMicrotask(() => this.#refuse())
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
    const { balancer } = this.#traffic
    balancer.report(this.#backend, failed)
    if (!this.#repeated) {
      const { method } = this.#job
      const next = nextBackend(balancer, { backend: this.#backend, method, failed })
      if (next !== undefined) return this.#repeat(next, failed)
    }
    this.#finish()
    this.#sink.fail(failed)
  }

  #send(): void {
    this.#sink.sentTo(this.#backend.name)
    this.#handle = this.#traffic.engine.send(this.#backend, this.#job, this)
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
    this.#traffic.balancer.report(this.#backend, outcome)
    this.#finish()
  }

  #finish(): void {
    this.#settled = true
    this.#traffic.settled()
  }
}

export function createUpgrader(balancer: Balancer, engine: UpgradeEngine): Upgrader {
  const attempt = async (backend: Backend, job: UpgradeJob) => {
    job.sentTo(backend.name)
    const failed = await engine.upgrade(backend, job)
    balancer.report(backend, failed ?? 101)
    return failed
  }
  return {
    upgrade: async (job) => {
      const backend = balancer.pick()
      const failed = await attempt(backend, job)
      const next = failed && nextBackend(balancer, { backend, method: 'GET', failed })
      return next === undefined ? failed : attempt(next, job)
    },
    close: () => engine.close(),
  }
}
