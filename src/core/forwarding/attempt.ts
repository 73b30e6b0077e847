/** The attempts of both engines share this base: each ends once, with one call of its sink. */
import { backendFailureKind, type FailedAttempt } from '../rules/backend-failure.ts'
import { isTlsRefusal } from '../rules/tls-faults.ts'
import {
  backendErrorCode,
  errorText,
  type AttemptSink,
  type ForwardHandle,
  type ForwardJob,
} from './engine.ts'
import type { RequestBody } from './request-body.ts'

/** The attempt is also its handle: the hot path allocates one object. */
export abstract class Attempt<Sink extends AttemptSink = AttemptSink> implements ForwardHandle {
  settled = false
  protected readonly job: ForwardJob
  protected readonly sink: Sink
  protected body: RequestBody | undefined
  /** The backend may have received some of the request. */
  protected sent = false

  constructor(job: ForwardJob, sink: Sink) {
    this.job = job
    this.sink = sink
  }

  abort(): boolean {
    if (!this.settled) this.settle({ closes: true })
    return this.sent
  }

  abstract resume(): void

  /** Gives up the connection: closes it, or keeps it for the next request. */
  protected abstract leave(closes: boolean): void

  protected abstract connectionFacts(): Pick<FailedAttempt, 'reusedConnection' | 'answerBegun'>

  onError(error: Error): void {
    if (this.settled) return
    const cause = errorText(error)
    if (isTlsRefusal(cause)) this.fail('unreachable', cause, 'connecting')
    else this.fail(backendFailureKind(backendErrorCode(error), this.sent), cause)
  }

  /** Handles the end of the response timeout; returns whether the attempt has failed. */
  protected isOverdue(hasAnswer: boolean): boolean {
    // The backend waits for the client's body, whose time the public listener limits.
    if (this.sent && !hasAnswer && this.body?.waitsForClient) return false
    const limit = `within ${this.job.responseTimeoutMs} ms (upstream.timeouts.response or the route's)`
    if (this.sent)
      this.fail('response_timeout', `no ${hasAnswer ? 'more of the ' : ''}answer ${limit}`)
    else this.fail('connect_timeout', `no connection ${limit}`)
    return true
  }

  protected fail(
    kind: FailedAttempt['kind'],
    cause: string,
    phase: FailedAttempt['phase'] = this.sent ? 'sent' : 'connecting',
  ): void {
    if (this.settled) return
    const facts = this.connectionFacts()
    const bodyTouched = this.body?.touched ?? false
    this.settle({ closes: true })
    this.sink.fail({ kind, cause, phase, bodyTouched, ...facts })
  }

  protected settle({ closes }: { closes: boolean }): void {
    this.settled = true
    this.leave(closes)
    this.body?.destroy()
  }
}
