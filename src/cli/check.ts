/** `tollgate check`: whether a configuration would be taken, and if not, everything that is wrong with it; `tollgate diff`: what it would change, and for whom. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { blastRadius, type BlastRadius } from '../config/changes/blast-radius.ts'
import { plannedInWords } from '../config/changes/radius-in-words.ts'
import type { Config } from '../config/config.ts'
import { namedFiles } from '../config/files.ts'
import { nameOf, nameServers, storeInWords } from '../config/hosts.ts'
import { locationOf } from '../config/locations.ts'
import { ConfigError, formatPath } from '../config/problems.ts'
import { DAY_MS } from '../config/time.ts'
import { createBackends } from '../core/backends/backend.ts'
import { connectionFault } from '../core/backends/checks.ts'
import { KeySource } from '../core/credentials/key-source.ts'
import { plural } from '../insight/format.js'
import * as tlsFiles from '../server/gateway/tls-files.ts'
import { describeFault } from '../state/redis/faults.ts'
import { RedisStore } from '../state/redis/redis.ts'
import { inspectServer } from '../state/redis/servers.ts'
import { OK, REFUSED, type Output } from './edge.ts'
import { radiusAgainst } from './operator/admin-keys.ts'
import { loadUsableConfig } from './usable-config.ts'

interface CheckOptions {
  readonly config: string
  /** Also tries the connections that it leads to, and prints a line for each. */
  readonly connect?: boolean
  /** Address of a running gateway: prints what would change there. */
  readonly against?: string
}

/** Prints warnings and one line that says ok, or every problem as `FILE:line:col path: fault; remedy`. */
export const checkCommand = async (
  { env, print }: Pick<Output, 'env' | 'print'>,
  { config: file, connect = false, against }: CheckOptions,
): Promise<number> => {
  try {
    const config = await loadUsableConfig(file, env)
    const { revision, clients, routes, warnings, store } = config
    for (const line of warnings) print(line)
    const faults = tlsFaults(config)
    for (const fault of faults) print(fault)
    if (faults.length > 0) return REFUSED
    const counts = `${plural(clients.size, 'client')}, ${plural(routes.length, 'route')}`
    print(`${file}: ok, revision ${revision}, ${counts}, store: ${storeInWords(store)}`)
    const gateway = against && { admin: against, env, option: '--against' as const }
    const radius = gateway && (await radiusAgainst(gateway, config))
    if (radius) for (const line of changesIn(radius, config)) print(line)
    const tried = connect ? await tryConnections(config) : []
    for (const { what, fault, note } of tried)
      print(`${what}: ${fault ?? `ok${note === undefined ? '' : `, ${note}`}`}`)
    const isRefused = radius && radius.needsRestart.length > 0
    return !isRefused && tried.every(({ fault }) => fault === undefined) ? OK : REFUSED
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const line of error.format()) print(line)
    return REFUSED
  }
}

/** Prints a line per kind of change, or the BlastRadius with --json. */
export const diffCommand = async (
  { env, print }: Pick<Output, 'env' | 'print'>,
  { old, new: file, json }: Record<'old' | 'new', string> & { readonly json?: boolean },
): Promise<void> => {
  const before = await loadUsableConfig(old, env)
  const config = await loadUsableConfig(file, env)
  const radius = await blastRadius(before, config)
  if (json) print(JSON.stringify(radius, undefined, 2))
  else for (const line of changesIn(radius, config)) print(line)
}

/** Says where the limits of each plan stand, but for those of clients of their own. */
const changesIn = (radius: BlastRadius, config: Config): string[] =>
  plannedInWords(radius, {
    locationOf: (plan) =>
      config.plans.get(plan)?.limits && locationOf(config, { path: ['plans', plan] }),
  })

/** fault: with its remedy; undefined: the connection works. */
interface Tried {
  readonly what: string
  readonly fault: string | undefined
  readonly note?: string | undefined
}

const CONNECT_MS = 1_000

/** Reads all files for TLS as a gateway does; returns faults with key, file and remedy. */
const tlsFaults = ({ server, admin, upstream, store }: Config): string[] =>
  [
    () => tlsFiles.readServerTls(server.tls),
    () => tlsFiles.readAdminTls(admin),
    () => tlsFiles.readBackendTls(upstream),
    () => readRedisTls(store),
  ].flatMap((read) => {
    try {
      read()
      return []
    } catch (error) {
      return [messageOf(error)]
    }
  })

const readRedisTls = ({ redis }: Config['store']) =>
  redis?.tls && tlsFiles.readTlsFiles('store.redis.tls', redis.tls)

/** Tries certificates, Redis, backends and the key set of the token issuer as a gateway would. Bounded in time. */
async function tryConnections({ upstream, store, jwt, written }: Config): Promise<Tried[]> {
  const tried = await Promise.all([
    tryRedis(store),
    tryBackends(upstream),
    ...(jwt === undefined ? [] : [tryKeySet(jwt)]),
  ])
  const certificates = namedFiles(written)
    .filter(({ path }) => /^(?:ca|cert|clientCa)$/.test(String(path.at(-1))))
    .map(({ path, file }) => ({ what: `${formatPath(path)} ${file}`, ...validity(file) }))
  return [...certificates, ...tried.flat()]
}

function validity(file: string): Omit<Tried, 'what'> {
  const { validFromDate, validToDate } = new X509Certificate(readFileSync(file))
  const daysLeft = Math.floor((validToDate.getTime() - Date.now()) / DAY_MS)
  if (daysLeft < 0) return { fault: `ended at ${validToDate.toISOString()}; renew it` }
  if (validFromDate.getTime() > Date.now())
    return { fault: `is valid from ${validFromDate.toISOString()} only; compare the clocks` }
  return { fault: undefined, note: `${daysLeft} days left` }
}

async function tryRedis(store: Config['store']): Promise<Tried[]> {
  const { redis, prefix, timeoutMs } = store
  if (redis === undefined) return []
  const tls = readRedisTls(store)
  const servers = await Promise.all(
    redis.addresses.map(async (address) => {
      const what = `store.redis ${nameOf(address)}`
      const away = await connectionFault({ ...address, tls: undefined }, CONNECT_MS)
      if (away !== undefined) return { what, fault: `${away}; start it, or correct its address` }
      const refusal = await inspectServer(address, tls)
      return { what, fault: refusal === undefined ? undefined : inWords(refusal) }
    }),
  )
  const connected = new RedisStore({ servers: redis, tls, timeoutMs, prefix })
  // A refusal has words of its own.
  const refusal = await connected.ready().then(() => undefined, messageOf)
  const away = `${connected.cause}; see that it answers within store.timeout`
  const fault = refusal ?? (connected.available ? undefined : away)
  const whole = { what: `store ${nameServers(redis)}`, fault, note: connected.warning }
  await connected.close()
  return [...servers, whole]
}

const inWords = (fault: unknown): string => {
  const { word, what } = describeFault(fault)
  return what === undefined ? word : `${word}: ${what}`
}

const tryBackends = (upstream: Config['upstream']): Promise<Tried[]> =>
  Promise.all(
    createBackends(upstream, tlsFiles.readBackendTls(upstream)).map(async (backend) => {
      const cause = await connectionFault(backend, upstream.timeouts.connectMs)
      const fault = cause && `${cause}; start it, or correct upstream.urls and upstream.tls`
      return { what: `upstream ${backend.name}`, fault }
    }),
  )

async function tryKeySet(jwt: NonNullable<Config['jwt']>): Promise<Tried> {
  const what = `jwt ${jwt.jwksUri ?? jwt.jwksFile}`
  try {
    const keys = new KeySource(jwt, { keySetFetched: () => undefined })
    await keys.ready
    keys.close()
    const cause = keys.fault?.cause
    return { what, fault: cause && `${cause}; correct jwt.jwksUri, or mend what answers there` }
  } catch (error) {
    return { what, fault: `${messageOf(error)}; give a key set (RFC 7517)` }
  }
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)
