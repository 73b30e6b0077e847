/** Shapes of the admin API's answers about bans, routes, backends, the store and the workers. Times are RFC 3339 in UTC. */
import type { Seen } from './live.ts'

export interface Ban {
  readonly key: string
  /** null: no client of the configuration has this key. */
  readonly client: string | null
  readonly since: string
  readonly until: string
  readonly reason: string | null
  readonly by: 'strikes' | 'operator'
}

/** GET /api/bans: current bans, the one that ends first at the top. scope is `store`. */
export interface Bans extends Seen {
  readonly bans: readonly Ban[]
}

/** PUT /api/bans/KEY_ID {"for":"1h","reason":"…"}: after is the ban. DELETE /api/bans/KEY_ID: after is null. */
export interface BanChange extends Seen {
  readonly key: string
  readonly before: Ban | null
  readonly after: Ban | null
}

export type LifecycleStage = 'announce' | 'brownout' | 'gone'

/** GET /api/routes */
export interface Routes extends Seen {
  readonly routes: readonly {
    readonly name: string
    readonly methods: readonly string[]
    /** Template as configured, such as /pets/{petId}. */
    readonly path: string
    /** null: not deprecated. */
    readonly deprecated: {
      readonly since: string
      readonly sunset: string | null
      readonly successor: string | null
      readonly stage: LifecycleStage
    } | null
    /** Requests since this gateway started. */
    readonly requests: number
  }[]
}

/** GET /api/deprecations: the busiest callers first; `others` counts the calls of all that are not listed. */
export interface Deprecations extends Seen {
  readonly since: string
  readonly callers: readonly {
    readonly route: string
    readonly client: string
    readonly userAgent: string
    readonly count: number
    readonly lastSeen: string
  }[]
  readonly others: number
}

/** GET /api/backends */
export interface Backends extends Seen {
  readonly backends: readonly {
    readonly name: string
    readonly state: 'up' | 'ejected' | 'down' | 'unknown'
    /** null: since the gateway started. */
    readonly since: string | null
    readonly cause: string | null
    /** Time of the next try; null: it is up. */
    readonly nextTry: string | null
    /** Rates and latency are those of the last ten seconds. */
    readonly requestsPerSecond: number
    readonly p99Ms: number | null
    readonly failuresPerSecond: number
  }[]
}

/** GET /api/store */
export interface Store extends Seen {
  readonly kind: 'redis' | 'embedded'
  /** Servers, or the file; null: in memory alone. */
  readonly where: string | null
  readonly state: 'up' | 'away' | 'refused'
  readonly since: string | null
  readonly cause: string | null
  readonly warning: string | null
  readonly onOutage: 'local' | 'open' | 'closed'
  readonly outages: number
  /** p99 of calls in the last ten seconds. */
  readonly callP99Ms: number | null
  /** Seconds for which the embedded store's counters or the history could not be saved. */
  readonly unsavedSeconds: number
}

/** GET /api/workers */
export interface Workers extends Seen {
  readonly wanted: number
  readonly workers: readonly {
    readonly number: number
    readonly pid: number
    readonly state: 'starting' | 'listening' | 'draining'
    readonly since: string | null
    readonly restarts: number
    /** null, here and below: the worker has not reported recently. */
    readonly inFlight: number | null
    readonly connections: number | null
    readonly loopLagMs: number | null
    readonly rssBytes: number | null
  }[]
}
