/** What the attempts of both engines have in common: each ends once, with one word to its sink. */
import { backendFailureKind, type FailedAttempt } from '../rules/backend-failure.ts'
import { isTlsRefusal } from '../rules/tls-faults.ts'
import { backendErrorCode, errorText } from './engine.ts'
import type { AttemptSink, ForwardHandle, ForwardJob } from './forwarder.ts'
import type { RequestBody } from './request-body.ts'

/** The handle too, since this is the hot path. */
export abstract class Attempt implements ForwardHandle {
  settled = false
  protected readonly job: ForwardJob
  protected readonly sink: AttemptSink
  protected body: RequestBody | undefined
  /** The backend may have seen some of the request. */
  protected sent = false

  constructor(job: ForwardJob, sink: AttemptSink) {
    this.job = job
    this.sink = sink
  }

  abort(): boolean {
    if (!this.settled) this.settle({ closes: true })
    return this.sent
  }

  abstract resume(): void

  /** The connection is kept for the next request, or closed. */
  protected abstract leave(closes: boolean): void

  protected abstract connectionFacts(): Pick<FailedAttempt, 'reusedConnection' | 'answerBegun'>

  onError(error: Error): void {
    if (this.settled) return
    const cause = errorText(error)
    if (isTlsRefusal(cause)) this.fail('unreachable', cause, 'connecting')
    else this.fail(backendFailureKind(backendErrorCode(error), this.sent), cause)
  }

  /** The response timeout is over; answers whether the attempt is, too. */
  protected isOverdue(hasAnswer: boolean): boolean {
    // The backend waits for the client's body; how long that may take is the public listener's to say.
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
