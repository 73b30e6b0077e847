/** The parsed configuration: what the rest of the gateway sees. Types only: defaults.ts has the defaults, schema.ts the bounds, cross-checks.ts the rest. */

export interface ListenAddress {
  readonly host: string
  /** 0 asks the operating system for a free port. */
  readonly port: number
}

/** Requests a client may make in the two fixed windows, on the store's clock. */
export interface Limits {
  readonly perMinute: number
  readonly perDay: number
}

export interface PlanConfig {
  readonly name: string
  /** undefined for a custom plan: every client of it states its own limits. */
  readonly limits: Limits | undefined
}

export interface KeyConfig {
  readonly id: string
  /** SHA-256 of the key, 64 lower-case hex digits. The key itself is never stored. */
  readonly sha256: string
  /** Unix time in ms from which the key is refused; undefined: never. */
  readonly expiresAtMs: number | undefined
}

export interface ClientConfig {
  readonly id: string
  readonly plan: string
  /** The client's own limits where given, else its plan's. */
  readonly limits: Limits
  readonly keys: readonly KeyConfig[]
}

export interface JwtConfig {
  readonly issuer: string
  readonly audience: string
  /** Exactly one of jwksUri and jwksFile is set. */
  readonly jwksUri: string | undefined
  readonly jwksFile: string | undefined
  readonly algorithms: readonly string[]
  readonly clientClaim: string
  readonly planClaim: string
}

export interface BansConfig {
  readonly strikes: number
  readonly withinMs: number
  readonly graceMs: number
  readonly durationMs: number
  readonly growth: number
  readonly maxDurationMs: number
  readonly forgetAfterMs: number
}

export interface RouteConfig {
  readonly name: string
  readonly method: string
  /** Path template below the base path, such as /pets/{petId}. */
  readonly path: string
  readonly deprecated:
    | {
        readonly sinceMs: number
        readonly sunsetMs: number | undefined
        /** A path below the base path, or an absolute URL. */
        readonly successor: string | undefined
        /** Documentation of the deprecation (rel="deprecation"). */
        readonly link: string | undefined
      }
    | undefined
  readonly stability: 'experimental' | 'beta' | 'stable' | undefined
  readonly websocket: boolean
  readonly responseTimeoutMs: number | undefined
}

/** PEM files. Certificates of servers are always verified. */
export interface RedisTlsConfig {
  /** Authorities to trust; undefined: those that Node.js trusts. */
  readonly caFile: string | undefined
  /** Both or neither: the certificate this gateway shows. */
  readonly certFile: string | undefined
  readonly keyFile: string | undefined
  /** The name that certificates must carry; undefined: the host connected to. */
  readonly serverName: string | undefined
}

export interface HostPort {
  readonly host: string
  readonly port: number
}

interface RedisAccess {
  /** undefined: the default user. */
  readonly username: string | undefined
  readonly password: string | undefined
  /** undefined: without TLS. */
  readonly tls: RedisTlsConfig | undefined
}

/** The Redis that all processes share: one server, a master that sentinels name, or a cluster. */
export type RedisConfig = RedisAccess &
  (
    | { readonly kind: 'server'; readonly address: HostPort; readonly db: number }
    | {
        readonly kind: 'sentinels'
        readonly sentinels: readonly HostPort[]
        /** What the sentinels call the master. */
        readonly name: string
        readonly db: number
        readonly sentinelUsername: string | undefined
        readonly sentinelPassword: string | undefined
      }
    /** nodes: some of the cluster's, which name the others. */
    | { readonly kind: 'cluster'; readonly nodes: readonly HostPort[] }
  )

export type OutageMode = 'local' | 'open' | 'closed'
/** Host as backends see it: the client's, that of their own URL, or a fixed one (port included, where it has one). */
export type HostField = 'preserve' | 'upstream' | { readonly name: string }

export type Engine = 'direct' | 'undici' | 'http-proxy-3'
export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent'
export type LogFormat = 'auto' | 'json' | 'text'

export interface Config {
  readonly server: {
    readonly listen: ListenAddress
    /** Starts with '/', never ends with one, '' for the root. */
    readonly basePath: string
    /** Processes that serve requests; 1: this process itself, without a supervisor. */
    readonly workers: number
    /** CIDRs (or single addresses) of peers whose X-Forwarded-For is believed. */
    readonly trustedProxies: readonly string[]
    /** Whether answers carry RateLimit and RateLimit-Policy beside the X-RateLimit fields. */
    readonly structuredQuotaHeaders: boolean
    readonly limits: {
      readonly headerBytes: number
      readonly headerCount: number
      readonly bodyBytes: number
      readonly urlBytes: number
    }
    readonly timeouts: {
      readonly headersMs: number
      readonly requestMs: number
      readonly idleMs: number
      readonly drainMs: number
    }
  }
  readonly admin: {
    readonly listen: ListenAddress
    /** Names and addresses, beside its own, that a request may have in Host. */
    readonly hosts: readonly string[]
  }
  readonly upstream: {
    /** Origins such as http://127.0.0.1:3000, without a path. */
    readonly urls: readonly string[]
    readonly host: HostField
    readonly timeouts: {
      readonly connectMs: number
      readonly responseMs: number
      readonly idleMs: number
    }
    /** Per worker and URL. */
    readonly connections: number
    readonly engine: Engine
  }
  readonly store: {
    /** undefined: the embedded store. */
    readonly redis: RedisConfig | undefined
    readonly prefix: string
    readonly timeoutMs: number
    readonly onOutage: OutageMode
    /** auto: processes hold tokens ahead of need. off: one call to the store per request. */
    readonly lease: 'auto' | 'off'
    /** SQLite file in which the embedded store keeps counts and bans; undefined: memory only. Not used with Redis. */
    readonly file: string | undefined
  }
  readonly plans: ReadonlyMap<string, PlanConfig>
  readonly clients: readonly ClientConfig[]
  readonly anonymous: { readonly perMinute: number }
  readonly jwt: JwtConfig | undefined
  readonly bans: BansConfig
  readonly routes: readonly RouteConfig[]
  readonly unmatched: 'forward' | 'reject'
  readonly log: {
    readonly level: LogLevel
    readonly format: LogFormat
    readonly access: boolean
  }
  /** First 12 hex digits of the SHA-256 of the file's text: names this configuration in logs and metrics. */
  readonly revision: string
  /** What it most likely does not mean, as lines to print: `FILE:line:col path: warning: fault; remedy`. */
  readonly warnings: readonly string[]
}
