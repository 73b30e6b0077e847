/** What the gateway says of the moment: its latest seconds, its busiest clients, its recent decisions. Times are RFC 3339 in UTC. */
import type { Decision } from '../../core/record/recent.ts'
import type { SeenUse } from '../../core/record/tally.ts'

/** How far an answer sees: all gateways of the store, this gateway with all its workers, or the one process that answers. */
export type Scope = 'store' | 'gateway' | 'process'

/** On every answer. */
export interface Seen {
  readonly asOf: string
  readonly scope: Scope
  /** What is missing from it, in words: a worker that does not answer, a store that is away. Left out: nothing. */
  readonly missing?: readonly string[]
}

/** Requests refused, by what refused them; `other`: every other refusal. */
export interface Refused {
  readonly minute: number
  readonly day: number
  readonly ban: number
  readonly other: number
}

/** Of the ten seconds before; null: nothing to measure. */
export interface Latency {
  readonly p50: number | null
  readonly p99: number | null
}

/** One whole second of this gateway. Event `tick`. */
export interface Tick {
  /** Its beginning. */
  readonly at: string
  readonly requests: number
  readonly refused: Refused
  /** The gateway's own time and the backend's apart. */
  readonly gatewayMs: Latency
  readonly backendMs: Latency
  readonly inFlight: number
  /** Decisions that were not told as events because there were too many. */
  readonly untold: number
}

/** The same as columns, one value a second from `from` on; null: not measured. */
export interface Seconds {
  readonly from: string
  readonly requests: readonly (number | null)[]
  readonly refused: Readonly<Record<keyof Refused, readonly (number | null)[]>>
  readonly gatewayMs: Readonly<Record<'p50' | 'p99', readonly (number | null)[]>>
  readonly backendMs: Readonly<Record<'p50' | 'p99', readonly (number | null)[]>>
}

export interface Attention {
  readonly kind:
    'store' | 'backend' | 'reload' | 'stale' | 'client' | 'unsaved' | 'log' | 'certificate' | 'key'
  readonly severity: 'bad' | 'warn'
  /** One sentence that names what is wrong, and why. */
  readonly text: string
  readonly since: string | null
  /** Client, backend or key id. */
  readonly subject: string | null
}

/** GET /api/overview */
export interface Overview extends Seen {
  readonly gateway: string
  readonly version: string
  readonly revision: string
  readonly startedAt: string
  readonly workers: { readonly listening: number; readonly wanted: number }
  /** Worst first, at most five. */
  readonly attention: readonly Attention[]
  /** Up to 900. */
  readonly seconds: Seconds
  readonly latest: Tick | null
  /** Of the latest 15 minutes. */
  readonly reloads: readonly { readonly at: string; readonly revision: string }[]
  readonly plans: readonly PlanOverview[]
  readonly counts: {
    readonly clients: number
    readonly keys: number
    readonly bannedKeys: number | null
    /** Refused for quota in the latest ten seconds, by this gateway. */
    readonly limitedClients: number
    readonly keysExpiring: number
  }
}

export interface PlanOverview {
  readonly plan: string
  readonly clients: number
  /** Since 00:00Z; null: not kept, or the store is away. */
  readonly admittedToday: number | null
  /** Clients of which this gateway has seen more than 80 % of a window used, or handed out to other processes. */
  readonly over80: number
  /** Requests that the limits which it only tries would have refused, as GET /api/shadow counts them; null: it tries none. */
  readonly shadowRefused: number | null
  /** Requests of which these limits cannot say it: so many may be missing in `shadowRefused`. */
  readonly shadowUnjudged: number | null
}

/** GET /api/top */
export interface Top extends Seen {
  readonly by: 'requests' | 'refusals' | 'latency'
  readonly windowMs: number
  /** No count is too low by more than this; 0: exact. */
  readonly error: number
  readonly clients: readonly TopClient[]
}

export interface TopClient {
  readonly client: string
  readonly plan: string
  readonly requests: number
  readonly refused: Refused
  /** Total time of a request at the gateway: mean and longest; null: none was admitted. */
  readonly meanMs: number | null
  readonly maxMs: number | null
  /** As this gateway saw it last; null: it has not. */
  readonly minute: SeenUse | null
  readonly day: SeenUse | null
}

/** GET /api/requests?client=&refused=true, newest first; GET /api/requests/ID is `{...Seen, request: Decision}`. */
export interface Requests extends Seen {
  /** How many this gateway keeps at most. */
  readonly kept: number
  readonly requests: readonly Decision[]
}

/** What else is told by GET /api/events; an event's name is the key here. Told within a second. */
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
  /** refused: why what was asked for was not taken; the revision is the one in force. */
  readonly reload: {
    readonly at: string
    readonly revision: string
    readonly refused: string | null
  }
}
