/** Messages between a supervisor and its workers over IPC. Types only; plain data, cloned on the way. */
import type { Notice, Totals } from '../../state/quota.ts'
import type { AnswerBatch, CallBatch } from '../../state/calls.ts'
import type { MetricsSnapshot } from '../../core/record/metric-registry.ts'
import type { PlainConfig } from '../../config/clients/client-table.ts'
import type { SecretOfDay } from '../../core/http/ticket-secret.ts'
import type { PackedSecond, ProcessNow } from '../../insight/live/second.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { WorkerCalls, WorkerFacts } from '../gateway/worker-link.ts'

export type WorkerQuestions = WorkerCalls & { measure(nothing: undefined): void }

export interface StartMessage {
  readonly kind: 'start'
  /** Number of the worker from 1; it is on every log line of the worker. */
  readonly number: number
  readonly version: string
  /** Its clients come on the pipe, like those of a prepare. */
  readonly config: PlainConfig
  readonly ticketSecret: SecretOfDay
}

export interface ClientNotice {
  readonly client: string
  readonly notice: Notice
  readonly totals?: Totals
}

export type ToWorker =
  | CallBatch
  | AnswerBatch
  | StartMessage
  | { readonly kind: 'quota'; readonly notices: readonly ClientNotice[] }
  | { readonly kind: 'banned'; readonly keyId: string; readonly ban: BanRecord }
  /** Notices were left out, of bans too: this worker has to read all bans. */
  | { readonly kind: 'missed' }
  /** The worker builds it aside and answers with `prepared`; then one of the next two follows. */
  | { readonly kind: 'prepare'; readonly round: number; readonly config: PlainConfig }
  | { readonly kind: 'commit' | 'abort' }
  /** The worker ends after what is in flight; idleMs: see FrontDoor. */
  | { readonly kind: 'drain'; readonly idleMs: number }

/** Why a worker could not begin; `code` and `syscall` are those of Node.js, such as EACCES of listen. */
export interface StartFault {
  readonly message: string
  readonly code?: string | undefined
  readonly syscall?: string | undefined
}

export type ToSupervisor =
  | CallBatch
  | AnswerBatch
  /** Sent once a second, which is a sign of life too, and once at the end. */
  | {
      readonly kind: 'second'
      readonly second: PackedSecond
      readonly now: ProcessNow
      readonly facts: WorkerFacts
    }
  /** Sent with every other second, at the end, and before the answer to `measure`: so values come in their order. */
  | { readonly kind: 'measured'; readonly snapshot: MetricsSnapshot }
  | { readonly kind: 'listening'; readonly facts: WorkerFacts }
  /** fault: why this worker cannot take it. */
  | { readonly kind: 'prepared'; readonly round: number; readonly fault: string | undefined }
  | { readonly kind: 'failed'; readonly fault: StartFault }

/** Descriptor of the socket that a worker listens on; 3 is the IPC channel. */
export const LISTEN_FD = 4
export const STDERR_FD = 2
/** Descriptor at which a worker finds its supervisor's standard error: it writes its own log there, so that no line costs two processes. */
export const LOG_FD = 5
/** Descriptor of the pipe on which a worker receives the clients of its configurations. */
export const CLIENTS_FD = 6
