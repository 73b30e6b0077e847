/** Tries all that a configuration leads to, as a gateway would: certificates, Redis, backends and the key set of the token issuer. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { connectionFault } from '../backends/probe.ts'
import type { Config } from '../config/config.ts'
import { createJwtVerifier } from '../credentials/jwt-verifier.ts'
import { createBackends, readBackendTls } from '../gateway/backends.ts'
import { readServerTls, readTlsFiles } from '../gateway/tls-files.ts'
import { describeFault } from '../redis/faults.ts'
import { inspectServer } from '../redis/inspect.ts'
import { connectRedis } from '../redis/redis.ts'
import { addressesOf, nameOf, nameServers } from '../redis/servers.ts'

/** fault: with its remedy; undefined: it is well. */
export interface Tried {
  readonly what: string
  readonly fault: string | undefined
  readonly note?: string | undefined
}

const DAY_MS = 24 * 60 * 60 * 1000
const CONNECT_MS = 1_000

/** Bounded in time; never rejects. */
export async function tryConnections(config: Config): Promise<Tried[]> {
  const { server, upstream, store, jwt } = config
  const { tls } = store.redis ?? {}
  const forClients = readFiles('server.tls', server.tls, () => readServerTls(server.tls))
  const forBackends = readFiles('upstream.tls', upstream.tls, () => readBackendTls(upstream))
  const forRedis = readFiles(
    'store.redis.tls',
    tls,
    () => tls && readTlsFiles('store.redis.tls', tls),
  )
  const tried = await Promise.all([
    ...(forRedis.isUsable ? [tryRedis(store, forRedis.options)] : []),
    ...(forBackends.isUsable ? [tryBackends(upstream, forBackends.options)] : []),
    ...(jwt === undefined ? [] : [tryKeySet(jwt)]),
  ])
  return [...forClients.tried, ...forBackends.tried, ...forRedis.tried, ...tried.flat()]
}

/** Files that cannot be used are told once, and nothing is tried with them. */
function readFiles<Read>(
  group: string,
  files: Partial<Record<'caFile' | 'certFile' | 'clientCaFile', string | undefined>> | undefined,
  read: () => Read,
) {
  const tried: Tried[] = []
  try {
    const options = read()
    for (const key of ['ca', 'cert', 'clientCa'] as const) {
      const file = files?.[`${key}File`]
      if (file !== undefined) tried.push({ what: `${group}.${key} ${file}`, ...validity(file) })
    }
    return { isUsable: true, options, tried }
  } catch (error) {
    return {
      isUsable: false,
      options: undefined,
      tried: [{ what: group, fault: messageOf(error) }],
    }
  }
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
  const store = connectRedis({ servers: redis, tls, timeoutMs, prefix })
  // It has its own words for what it is refused.
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
    const verifier = createJwtVerifier(jwt, {
      observer: { keySetFetched: () => undefined, unavailable: () => undefined },
    })
    await verifier.ready()
    verifier.close()
    const cause = verifier.fault?.cause
    return { what, fault: cause && `${cause}; correct jwt.jwksUri, or mend what answers there` }
  } catch (error) {
    return { what, fault: `${messageOf(error)}; give a key set (RFC 7517)` }
  }
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)
