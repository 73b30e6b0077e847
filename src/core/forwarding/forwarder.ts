/** Interfaces between the pipeline, the policy of attempts, and the engines that send a request to a backend. Types only. */
import type { Duplex, Readable } from 'node:stream'
import type { Backend } from '../backends/backend.ts'
import type { BackendFailure, FailedAttempt } from '../rules/backend-failure.ts'
import type { Caller } from '../rules/credentials.ts'
import type { OwnEnd, TunnelEnd, WebSocketOffer } from '../rules/websocket.ts'

/** Receives the result of one attempt. The last call is exactly one of end and fail; head comes at most once before. */
export interface AttemptSink {
  /** Takes the final status and the header fields as a flat name, value array, exactly as received. 1xx answers are not passed on. Must not throw. */
  head(status: number, headers: string[]): void
  /** Takes a piece of the body; false asks the engine to pause until resume() of the handle. */
  data(chunk: Buffer): boolean
  end(): void
  fail(failed: FailedAttempt): void
}

/** Receives the result of the request, after all its attempts. */
export interface ForwardSink extends Omit<AttemptSink, 'fail'> {
  fail(failure: BackendFailure): void
  /** Names the backend of each attempt, for a repeated one with the previous failure. Only this call may come before forward() has returned. */
  sentTo(backend: string, after?: BackendFailure): void
}

export interface ReceivedBody {
  readonly bytes: Buffer
  /** The body is complete. */
  readonly isWhole: boolean
}

export interface ForwardJob {
  /** The balancer counts permits and failures by client. startedMs: performance.now(). */
  readonly clientId: string
  readonly startedMs: number
  readonly method: string
  /** Target in origin form, byte for byte as it was routed. */
  readonly target: string
  /** Header fields for the backend as a flat name, value array. Host is absent if the backend's own is to be used; of the framing fields only Content-Length is kept, when the body has a known length. */
  readonly headers: string[]
  /** The client's body behind what was received; undefined: the request has none. One without a known length is counted against bodyLimitBytes. */
  readonly body: Readable | undefined
  /** The part of the body that was read before a backend was chosen. */
  readonly received?: ReceivedBody | undefined
  readonly bodyLimitBytes: number
  readonly responseTimeoutMs: number
}

export interface ForwardHandle {
  /**
   * Ends the backend request at once, after the client left or the gateway gave up; no sink call follows.
   * fault: the reason if the backend's answer cannot be passed on.
   * Returns whether a backend may have received any of the request.
   */
  abort(fault?: BackendFailure): boolean
  /** Continues the answer after data() returned false. */
  resume(): void
}

/** Sends one request to one given backend; chooses no backend and repeats nothing. */
export interface Engine {
  /** Never throws; the sink is called only after this call has returned. The handle's abort() reports on this attempt. */
  send(backend: Backend, job: ForwardJob, sink: AttemptSink): ForwardHandle
  /** Closes all connections; called when no request is under way. */
  close(): Promise<void>
}

export interface UpgradeJob {
  readonly request: { readonly method?: string | undefined }
  readonly socket: Duplex
  readonly head: Buffer
  readonly target: string
  readonly caller: Caller
  /** The client's offer, which the backend's 101 must answer. */
  readonly offer: WebSocketOffer
  /** Header fields like those of a ForwardJob, with Connection and Upgrade. */
  readonly headers: string[]
  /** Converts the backend's flat header fields to those of the client's 101 answer; undefined: they cannot be passed on. */
  responseHeaders(backend: readonly string[]): string[] | undefined
  /** Same as sentTo() of a ForwardSink. */
  sentTo(backend: string, after?: BackendFailure): void
  /** The backend has answered 101, and the client has been sent it. */
  established(): void
  /** The tunnel ends; called once after established(), before the client's side is closed. */
  ended(end: TunnelEnd): void
}

/** Carries one WebSocket handshake and its tunnel to one given backend. */
export interface UpgradeEngine {
  /** Number of handshakes and tunnels. */
  readonly underWay: number
  /**
   * Resolves when the tunnel has closed.
   * If the backend does not upgrade or fails before, the result is the failure, and nothing has been written to the client's socket.
   */
  upgrade(backend: Backend, job: UpgradeJob): Promise<FailedAttempt | undefined>
  /** Ends tunnels that were idle for too long or whose caller has lost the right to them. Must be called about twice a second. */
  review(judge: (caller: Caller) => OwnEnd | undefined): void
  /** Sends a close frame on every tunnel, including those opened later. */
  drain(): void
  /** Destroys every tunnel. */
  close(): Promise<void>
}
