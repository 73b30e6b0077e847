/** Shapes that answers about the moment share, and those of events. Times are RFC 3339 in UTC. */
import type { WindowName } from '../../config/time.ts'
import type { Decision } from '../../core/record/recent.ts'

/** What an answer covers: all gateways of the store, this gateway with all its workers, or the one process that answers. */
export type Scope = 'store' | 'gateway' | 'process'

/** Fields of every answer. */
export interface Seen {
  readonly asOf: string
  readonly scope: Scope
  /** Reasons why the answer is incomplete, such as a silent worker or a store that is away; undefined: it is complete. */
  readonly missing?: readonly string[]
}

/** The gateways of a store, each by its `admin.advertise`, or by its id where others cannot ask it. */
export interface Gateways {
  /** Those whose figures an answer adds up; the one that was asked comes first. */
  readonly answered: readonly string[]
  readonly silent: readonly string[]
  /** Why figures are missing, in words. */
  readonly why: readonly string[]
}

/** An answer that adds up what gateways know, each its own part. */
export type Whole<Sum extends Seen> = Omit<Sum, keyof Seen> & Seen & { readonly gateways: Gateways }

/** Requests refused, by cause; `other`: all further refusals. */
export type Refused = Readonly<Record<WindowName | 'ban' | 'other', number>>

/** Latency over the last ten seconds; null: nothing to measure. */
export interface Latency {
  readonly p50: number | null
  readonly p99: number | null
}

/** One whole second of this gateway. Event `tick`. */
export interface Tick {
  /** Beginning of the second. */
  readonly at: string
  readonly requests: number
  readonly refused: Refused
  /** Time is split into the gateway's own and the backend's. */
  readonly gatewayMs: Latency
  readonly backendMs: Latency
  readonly inFlight: number
  /** Decisions that were too many to be sent as events, which are at most 50. */
  readonly untold: number
}

export interface Attention {
  readonly kind:
    | 'store'
    | 'backend'
    | 'reload'
    | 'stale'
    | 'client'
    | 'unsaved'
    | 'log'
    | 'config'
    | 'certificate'
    | 'key'
  readonly severity: 'bad' | 'warn'
  /** One sentence that names what is wrong, and why. */
  readonly text: string
  readonly since: string | null
  /** Client, backend or key id. */
  readonly subject: string | null
}

/** GET /api/requests?client=&refused=true, newest first; GET /api/requests/ID is `{...Seen, request: Decision}`. */
export interface Requests extends Seen {
  /** Most requests that each process keeps of a kind. */
  readonly kept: number
  readonly requests: readonly Decision[]
}

export interface Ban {
  readonly key: string
  /** null: no client of the configuration has this key. */
  readonly client: string | null
  readonly since: string
  readonly until: string
  readonly reason: string | null
  readonly by: 'strikes' | 'operator'
}

/** Further events of GET /api/events, by event name. Each is sent within a second. */
export interface Changes {
  readonly store: {
    readonly at: string
    readonly available: boolean
    readonly cause: string | null
  }
  readonly backend: {
    readonly at: string
    readonly name: string
    readonly state: 'up' | 'down' | 'ejected'
    readonly cause: string | null
  }
  /** refused: reason why a reload was refused; null: it was taken. revision: the one in force. */
  readonly reload: {
    readonly at: string
    readonly revision: string
    readonly refused: string | null
  }
}
