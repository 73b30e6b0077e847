/** The seams between the pipeline, the one policy of attempts, and an engine that carries a request to a backend. Types only. */
import type { Duplex } from 'node:stream'
import type { Backend } from '../backends/backend.ts'
import type { IncomingRequest } from '../http/messages.ts'
import type { BackendFailure, FailedAttempt } from '../rules/backend-failure.ts'
import type { Caller } from '../rules/credentials.ts'
import type { OwnEnd, TunnelEnd, WebSocketOffer } from '../rules/websocket.ts'

/** What the engine tells of one attempt. Exactly one of end and fail is called, once, last; head at most once before. */
export interface AttemptSink {
  /** Final (non-1xx) status and header fields as a flat name, value array, exactly as received. Interim 1xx answers are not passed. May throw nothing. */
  head(status: number, headers: string[]): void
  /** A piece of the body; false asks the engine to pause until resume() of the handle. */
  data(chunk: Buffer): boolean
  end(): void
  fail(failed: FailedAttempt): void
}

/** What the pipeline is told of the request; as of one attempt. */
export interface ForwardSink extends Omit<AttemptSink, 'fail'> {
  fail(failure: BackendFailure): void
  /** The backend that it goes to; again when it is repeated, with why the attempt before failed. The only call that may come before forward() has returned. */
  sentTo(backend: string, after?: BackendFailure): void
}

export interface ReceivedBody {
  readonly bytes: Buffer
  /** Nothing follows. */
  readonly isWhole: boolean
}

export interface ForwardJob {
  /** Whose turn it is where requests wait, and who sees a backend fail. startedMs: of performance.now(). */
  readonly clientId: string
  readonly startedMs: number
  readonly method: string
  /** Origin form, the very string that was routed; passed on byte for byte. */
  readonly target: string
  /** Header fields for the backend, flat name, value array; without Host where it is to be the backend's own, and without framing headers other than Content-Length (kept exactly when the body has a known length). */
  readonly headers: string[]
  /** The client's request; its body is the body to send when hasBody, behind what was received. Chunked bodies without a known length are counted against bodyLimitBytes. */
  readonly request: IncomingRequest
  readonly hasBody: boolean
  /** How the body begins, where it was read before a backend was chosen. */
  readonly received?: ReceivedBody | undefined
  readonly bodyLimitBytes: number
  readonly responseTimeoutMs: number
}

export interface ForwardHandle {
  /**
   * The client left or the gateway gave up: ends the backend request at once; no sink call follows.
   * fault: why its answer cannot be passed on, where that is the backend's.
   * Answers whether a backend may have seen anything of the request.
   */
  abort(fault?: BackendFailure): boolean
  /** After data() returned false. */
  resume(): void
}

/** Sends one request to one given backend: picks none, repeats nothing. */
export interface Engine {
  /** Never throws; all news goes to the sink, never before this call has returned. The handle's abort() speaks of this attempt. */
  send(backend: Backend, job: ForwardJob, sink: AttemptSink): ForwardHandle
  /** Called when nothing is under way any more. */
  close(): Promise<void>
}

export interface UpgradeJob {
  readonly request: IncomingRequest
  readonly socket: Duplex
  readonly head: Buffer
  readonly target: string
  readonly caller: Caller
  /** What the backend's 101 has to answer. */
  readonly offer: WebSocketOffer
  /** As of a ForwardJob, and with Connection and Upgrade. */
  readonly headers: string[]
  /** Header fields of the 101 answer, flat, from those of the backend; undefined when they cannot be passed on. */
  responseHeaders(backend: readonly string[]): string[] | undefined
  /** As of a ForwardSink. */
  sentTo(backend: string, after?: BackendFailure): void
  /** The backend has answered 101, and the client has been told. */
  established(): void
  /** Called once after that, before the client's side is closed. */
  ended(end: TunnelEnd): void
}

/** Carries one WebSocket handshake and its tunnel to one given backend. */
export interface UpgradeEngine {
  /** Handshakes and tunnels. */
  readonly underWay: number
  /**
   * Resolves when the tunnel has closed.
   * A backend that does not upgrade, or fails before that, is told by the result, with nothing yet written to the client's socket.
   */
  upgrade(backend: Backend, job: UpgradeJob): Promise<FailedAttempt | undefined>
  /** Ends tunnels that were idle for too long, and those whose caller is judged to have no right to them any more. To be called about twice a second. */
  review(judge: (caller: Caller) => OwnEnd | undefined): void
  /** Says goodbye on every tunnel, also on those that are still to come. */
  drain(): void
  /** Cuts every tunnel. */
  close(): Promise<void>
}
