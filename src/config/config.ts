/** The parsed configuration: what the rest of the gateway sees. schema.ts has the keys with their bounds and defaults. */
import type { z } from 'zod'
import type { CertificateEnd } from './certificates.ts'
import type { ClientTable } from './clients/client-table.ts'
import type { redis } from './redis.ts'
import type { ConfigFile } from './schema.ts'
import type { Locations } from './locations.ts'
import type { LimitKey } from './time.ts'
import type { Group } from './tree.ts'

export type { HostPort, HostPort as ListenAddress } from './addresses.ts'
export type { ClientTable as Clients } from './clients/client-table.ts'

type ReadonlyDeep<T> = T extends object ? { readonly [K in keyof T]: ReadonlyDeep<T[K]> } : T
type File = ReadonlyDeep<ConfigFile>

/** Requests that a client may make in each of the fixed windows, on the store's clock. */
export type Limits = Readonly<Record<LimitKey, number>>

export interface PlanConfig {
  readonly name: string
  /** undefined for a custom plan: every client of it states its own limits. */
  readonly limits: Limits | undefined
  /** Requests of one client at once, per worker. */
  readonly concurrent: number
  /** Limits that are only tried, on each of its clients. */
  readonly shadow?: Limits | undefined
}

/** A client as written: with limits only where it has its own. */
export type WrittenClient = File['clients'][number]
/** limits: the client's own where given, else its plan's; concurrent: its plan's. */
export type ClientConfig = WrittenClient &
  Pick<PlanConfig, 'concurrent'> & { readonly limits: Limits }
export type KeyConfig = ClientConfig['keys'][number]

export interface OwnedKey {
  readonly client: ClientConfig
  readonly key: KeyConfig
}

export type CorsConfig = NonNullable<File['cors']>
export type JwtConfig = NonNullable<File['jwt']>
export type BansConfig = File['bans']
export type RouteConfig = File['routes'][number]
/** The Redis that all processes share: one server, a master that sentinels name, or a cluster, some nodes of which name the others; with the addresses of each. */
export type RedisConfig = ReadonlyDeep<NonNullable<z.output<typeof redis>>>
/** PEM files. Certificates of servers are always verified. */
export type TlsFilesConfig = NonNullable<File['upstream']['tls']>
export type AdminConfig = File['admin']
/** PEM files of the public listener. */
export type ServerTlsConfig = NonNullable<File['server']['tls']>
export type OutageMode = File['store']['onOutage']
export type LogLevel = File['log']['level']
export type LogFormat = File['log']['format']

/** The default of server.limits.connections; it stands here as worker processes load no schema. */
export const DEFAULT_CONNECTIONS = 20_000

/** The content of one text, without clients. */
export interface ParsedConfig extends Omit<File, 'plans' | 'clients'> {
  readonly plans: ReadonlyMap<string, PlanConfig>
}

export interface Config extends ParsedConfig {
  /** Clients of the file and of its client files. */
  readonly clients: ClientTable
  /** First 12 hex digits of the SHA-256 of the file's text, or of the text and its client files: names this configuration in logs and metrics. */
  readonly revision: string
  /** The settings as a file has them, with their defaults; without clients and secrets. */
  readonly written: Group
  /** Where its settings stand in its files. */
  readonly locations: Locations
  /** Warnings as lines to print: `FILE:line:col path: warning: fault; remedy`. */
  readonly warnings: readonly string[]
  /** Ends of the certificates that this gateway shows to others, as their files were when they were read. */
  readonly certificates: readonly CertificateEnd[]
}
