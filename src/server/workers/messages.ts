/** Messages between a supervisor and its workers over IPC. Types only; plain data, cloned on the way. */
import type { Decision } from '../../core/record/recent.ts'
import type { BanCalls } from '../../state/supervisor/bans.ts'
import type { CounterCalls } from '../../state/supervisor/counters.ts'
import type { QuotaCalls } from '../../state/supervisor/authority.ts'
import type { Notice, Totals } from '../../state/quota.ts'
import type { AnswerBatch, CallBatch } from '../../state/supervisor/calls.ts'
import type { MetricsSnapshot } from '../../core/record/metric-registry.ts'
import type { PlainConfig } from '../../config/clients/client-table.ts'
import type { SecretOfDay } from '../../core/http/ticket-secret.ts'
import type { PackedSecond } from '../../insight/live/packed-second.ts'
import type { ProcessNow } from '../../insight/live/second.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { WorkerFacts } from '../gateway/worker-link.ts'

/** All calls of a worker to its supervisor. */
export type SharedCalls = QuotaCalls & CounterCalls & BanCalls

export interface StartMessage {
  readonly kind: 'start'
  /** Number of the worker from 1; it is on every log line of the worker. */
  readonly number: number
  readonly version: string
  /** Its clients come through the pipe, like those of a prepare. */
  readonly config: PlainConfig
  readonly ticketSecret: SecretOfDay
  readonly gatewayId: Uint8Array
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
  /** Whether anybody listens to decisions. */
  | { readonly kind: 'listen'; readonly isWanted: boolean }
  | { readonly kind: 'quota'; readonly notices: readonly ClientNotice[] }
  | { readonly kind: 'banned'; readonly keyId: string; readonly ban: BanRecord }
  /** Notices were left out, of bans too: this worker has to read all bans. */
  | { readonly kind: 'missed' }
  /** The worker builds it aside and answers with `prepared`; then one of the next two follows, of the same round. */
  | { readonly kind: 'prepare'; readonly round: number; readonly config: PlainConfig }
  | { readonly kind: 'commit' | 'abort'; readonly round: number }
  | { readonly kind: 'measure'; readonly question: number }
  /** The worker answers with `alive`. */
  | { readonly kind: 'beat' }
  /** The worker ends after what is in flight; idleMs: see FrontDoor. */
  | { readonly kind: 'drain'; readonly idleMs: number }

/** Why a worker could not begin; `code` is that of Node.js, such as EACCES. */
export interface StartFault {
  readonly message: string
  readonly code: string | undefined
  /** The public listener could not be opened. */
  readonly isListener: boolean
}

/** Messages that do not concern their worker alone. */
export type SharedMessage =
  | CallBatch
  | {
      readonly kind: 'decisions'
      readonly decisions: readonly Decision[]
      readonly untold: number
    }
  /** Sent once a second, and once at the end. */
  | { readonly kind: 'second'; readonly second: PackedSecond; readonly now: ProcessNow }

export type ToSupervisor =
  | SharedMessage
  | AnswerBatch
  | { readonly kind: 'listening' }
  | { readonly kind: 'alive' }
  /** fault: why this worker cannot take it. */
  | { readonly kind: 'prepared'; readonly round: number; readonly fault: string | undefined }
  | { readonly kind: 'failed'; readonly fault: StartFault }
  /** Sent at the start, and soon after each change. */
  | { readonly kind: 'facts'; readonly facts: WorkerFacts }
  /** Sent when asked, and once at the end, without a question. */
  | {
      readonly kind: 'measured'
      readonly question?: number
      readonly snapshot: MetricsSnapshot
    }

/** Descriptor of the socket that a worker listens on; 3 is the IPC channel. */
export const LISTEN_FD = 4
