/** The seam between the pipeline and an engine that carries a request to a backend. Types only. */
import type { Duplex } from 'node:stream'
import type { IncomingMessage } from 'node:http'
import type { BackendFailureKind } from '../rules/backend-failure.ts'

export type { BackendFailureKind }

export interface BackendFailure {
  readonly kind: BackendFailureKind
  /** For the log only. */
  readonly cause: string
}

/** What the engine tells the pipeline. Exactly one of end and fail is called, once, last; head at most once before. */
export interface ForwardSink {
  /** Final (non-1xx) status and header fields as a flat name, value array, exactly as received. Interim 1xx answers are not passed. May throw nothing. */
  head(status: number, headers: string[]): void
  /** A piece of the body; false asks the engine to pause until resume() of the handle. */
  data(chunk: Buffer): boolean
  end(): void
  fail(failure: BackendFailure): void
}

export interface ForwardJob {
  readonly method: string
  /** Origin form, the very string that was routed; passed on byte for byte. */
  readonly target: string
  /** Complete header fields for the backend, flat name, value array, without framing headers other than Content-Length (kept exactly when the body has a known length). */
  readonly headers: string[]
  /** The client's request; its body is the body to send when hasBody. Chunked bodies without a known length are counted against bodyLimitBytes. */
  readonly request: IncomingMessage
  readonly hasBody: boolean
  readonly bodyLimitBytes: number
  readonly responseTimeoutMs: number
}

export interface ForwardHandle {
  /**
   * The client left or the gateway gave up: ends the backend request at once; no sink call follows.
   * Answers whether a backend may have seen anything of the request.
   */
  abort(): boolean
  /** After data() returned false. */
  resume(): void
}

export interface Forwarder {
  /** Starts the request; never throws, all news goes to the sink (never before this call has returned). */
  forward(job: ForwardJob, sink: ForwardSink): ForwardHandle
  close(): Promise<void>
}

export interface UpgradeJob {
  readonly request: IncomingMessage
  readonly socket: Duplex
  readonly head: Buffer
  readonly target: string
  /** Complete header fields for the backend, Connection and Upgrade included, flat. */
  readonly headers: string[]
  /** Header fields of the 101 answer, flat, from those of the backend; undefined when they cannot be passed on. */
  responseHeaders(backend: readonly string[]): string[] | undefined
}

/** Carries WebSocket upgrades; always http-proxy-3. */
export interface Upgrader {
  /**
   * Resolves when the tunnel has closed. `established` is called once the backend answered 101.
   * A backend that does not upgrade, or fails before that, is told by the result, with nothing yet written to the client's socket.
   */
  upgrade(job: UpgradeJob, established: () => void): Promise<BackendFailure | undefined>
  close(): Promise<void>
}
