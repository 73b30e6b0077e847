/** The shape of `store`: where counts and bans are kept, with the checks between its values. Another store is added here and in src/server/gateway/stores.ts; all else asks `shared`. */
import type { z } from 'zod'
import { origin } from './addresses.ts'
import { group, inMs } from './groups.ts'
import { isEverywhere, isLoopback, nameServers } from './hosts.ts'
import type { Refuse } from './problems.ts'
import { checkRedis, redis } from './redis.ts'
import { choice, duration, optionalFile, storePrefix } from './scalars.ts'
import { has, readAt, textAt, type Group } from './tree.ts'

/** The store that gateways share, as everything beside its home sees it; undefined: none is configured. */
const sharedIn = ({ redis: at }: { readonly redis: z.output<typeof redis> }) =>
  at && { setting: 'redis' as const, name: 'Redis', servers: nameServers(at), tls: at.tls }

export const store = group({
  redis,
  prefix: storePrefix.prefault('tollgate'),
  /** A request is decided within 250 ms, and may have to wait for two calls and a pause. */
  timeout: duration('1ms', '110ms').prefault('100ms'),
  onOutage: choice(['local', 'open', 'closed']).prefault('local'),
  /** auto: processes hold tokens ahead of need. off: one call to the store per request. */
  lease: choice(['auto', 'off']).prefault('auto'),
  /** SQLite file in which the embedded store keeps counts and bans; undefined: memory only. Not used with Redis. */
  file: optionalFile.prefault('data/tollgate.db'),
})
  .transform(inMs('timeout'))
  .transform((given) => ({ ...given, shared: sharedIn(given) }))
  .prefault({})

/** Whether a setting of this key may hold a login, so that no problem shows its value. */
export const mayHoldLogin = (key: unknown): boolean => key === 'redis'

/** Gateways find each other in the store that they share. */
const checkAdvertise = (tree: Group, refuse: Refuse): void => {
  const path = ['admin', 'advertise']
  const advertised = readAt(tree, path, origin)
  if (advertised === undefined) return
  if (!has(tree, 'admin', 'tokenSha256'))
    refuse(path, 'needs admin.tokenSha256, by which gateways know each other; set one in all')
  if (textAt(tree, 'store', 'redis') === '')
    refuse(path, 'needs store.redis, where gateways find each other; name it, or remove this')
  const { hostname } = new URL(advertised)
  if (isEverywhere(hostname) || isLoopback(hostname))
    refuse(path, 'leads others to themselves; write the address by which they reach this listener')
}

export const checkStore = (tree: Group, refuse: Refuse): void => {
  checkRedis(tree, refuse)
  checkAdvertise(tree, refuse)
}
