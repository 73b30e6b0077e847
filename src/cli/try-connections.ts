/** Tries all connections of a configuration as a gateway would: certificates, Redis, backends and the key set of the token issuer. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { createBackends } from '../core/backends/backend.ts'
import { connectionFault } from '../core/backends/checks.ts'
import type { Config } from '../config/config.ts'
import { namedFiles } from '../config/files.ts'
import { formatPath } from '../config/problems.ts'
import { KeySource } from '../core/credentials/key-source.ts'
import { readAdminTls, readServerTls, readTlsFiles } from '../server/gateway/tls-files.ts'
import { describeFault } from '../state/redis/faults.ts'
import { RedisStore } from '../state/redis/redis.ts'
import { addressesOf, nameOf, nameServers } from '../config/hosts.ts'
import { inspectServer } from '../state/redis/servers.ts'
import { DAY_MS } from '../config/time.ts'

/** fault: with its remedy; undefined: the connection works. */
export interface Tried {
  readonly what: string
  readonly fault: string | undefined
  readonly note?: string | undefined
}

const CONNECT_MS = 1_000

/** Reads all files for TLS as a gateway does. faults: with key, file and remedy; files with a fault are undefined. */
export function readTls({ server, admin, upstream, store: { redis } }: Config) {
  const faults: string[] = []
  const attempt = <Read>(read: () => Read): Read | undefined => {
    try {
      return read()
    } catch (error) {
      faults.push(messageOf(error))
      return undefined
    }
  }
  attempt(() => readServerTls(server.tls))
  attempt(() => readAdminTls(admin))
  const upstreamTls = attempt(() => upstream.tls && readTlsFiles('upstream.tls', upstream.tls))
  const redisTls = attempt(() => redis?.tls && readTlsFiles('store.redis.tls', redis.tls))
  return { upstream: upstreamTls, redis: redisTls, faults }
}

/** tls: without faults. Bounded in time. */
export async function tryConnections(
  config: Config,
  tls: ReturnType<typeof readTls>,
): Promise<Tried[]> {
  const { upstream, store, jwt, written } = config
  const tried = await Promise.all([
    tryRedis(store, tls.redis),
    tryBackends(upstream, tls.upstream),
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

async function tryRedis(
  { redis, prefix, timeoutMs }: Config['store'],
  tls: ConnectionOptions | undefined,
): Promise<Tried[]> {
  if (redis === undefined) return []
  const servers = await Promise.all(
    addressesOf(redis).map(async (address) => {
      const what = `store.redis ${nameOf(address)}`
      const away = await connectionFault({ ...address, tls: undefined }, CONNECT_MS)
      if (away !== undefined) return { what, fault: `${away}; start it, or correct its address` }
      const refusal = await inspectServer(address, tls)
      return { what, fault: refusal === undefined ? undefined : inWords(refusal) }
    }),
  )
  const store = new RedisStore({ servers: redis, tls, timeoutMs, prefix })
  // A refusal has words of its own.
  const refusal = await store.ready().then(() => undefined, messageOf)
  const away = `${store.cause}; see that it answers within store.timeout`
  const fault = refusal ?? (store.available ? undefined : away)
  const whole = { what: `store ${nameServers(redis)}`, fault, note: store.warning }
  await store.close()
  return [...servers, whole]
}

const inWords = (fault: unknown): string => {
  const { word, what } = describeFault(fault)
  return what === undefined ? word : `${word}: ${what}`
}

const tryBackends = (
  upstream: Config['upstream'],
  tls: ConnectionOptions | undefined,
): Promise<Tried[]> =>
  Promise.all(
    createBackends(upstream, tls).map(async (backend) => {
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
