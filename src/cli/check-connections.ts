/** `tollgate check --connect`: tries what a configuration leads to, as a gateway would. Only that option loads it. */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Config } from '../config/config.ts'
import { namedFiles } from '../config/files.ts'
import { nameOf } from '../config/hosts.ts'
import { formatPath } from '../config/problems.ts'
import { DAY_MS } from '../config/time.ts'
import { createBackends } from '../core/backends/backend.ts'
import { connectionFault } from '../core/backends/checks.ts'
import { KeySource } from '../core/credentials/key-source.ts'
import { createLog } from '../core/record/log.ts'
import { openStores } from '../server/gateway/stores.ts'
import { readBackendTls, readStoreTls } from '../server/gateway/tls-files.ts'
import { describeFault } from '../state/redis/faults.ts'
import { inspectServer } from '../state/redis/servers.ts'

/** fault: with its remedy; undefined: the connection works. */
interface Tried {
  readonly what: string
  readonly fault: string | undefined
  readonly note?: string | undefined
}

const CONNECT_MS = 1_000

/** Tries certificates, the store, backends and the key set of the token issuer as a gateway would. Bounded in time. */
export async function tryAll(config: Config): Promise<Tried[]> {
  const tried = await Promise.all([
    tryStore(config),
    tryBackends(config.upstream),
    ...(config.jwt === undefined ? [] : [tryKeySet(config.jwt)]),
  ])
  const certificates = namedFiles(config.written)
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

/** Tries what is known of the servers of a shared store one by one, then the store as a whole. */
async function tryStore(config: Config): Promise<Tried[]> {
  const { shared } = config.store
  if (shared === undefined) return []
  const servers = await tryRedis(config.store)
  const opened = openStores({ config, log: createLog({ level: 'silent', access: false }) })
  await opened.ready().catch(() => undefined)
  // A refusal has words of its own.
  const { available, cause, refusal, warning } = opened.health
  const away = `${cause}; see that it answers within store.timeout`
  const fault = refusal ?? (available ? undefined : away)
  await opened.close()
  return [...servers, { what: `store ${shared.servers}`, fault, note: warning }]
}

const tryRedis = (store: Config['store']): Promise<Tried[]> =>
  Promise.all(
    (store.redis?.addresses ?? []).map(async (address) => {
      const what = `store.redis ${nameOf(address)}`
      const away = await connectionFault({ ...address, tls: undefined }, CONNECT_MS)
      if (away !== undefined) return { what, fault: `${away}; start it, or correct its address` }
      const refusal = await inspectServer(address, readStoreTls(store))
      if (refusal === undefined) return { what, fault: undefined }
      const { word, what: remedy } = describeFault(refusal)
      return { what, fault: remedy === undefined ? word : `${word}: ${remedy}` }
    }),
  )

const tryBackends = (upstream: Config['upstream']): Promise<Tried[]> =>
  Promise.all(
    createBackends(upstream, readBackendTls(upstream)).map(async (backend) => {
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
    return { what, fault: `${(error as Error).message}; give a key set (RFC 7517)` }
  }
}
