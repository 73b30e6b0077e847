/** What a new configuration changes for whom, before or after it is taken. */
import { isDeepStrictEqual } from 'node:util'
import type {
  ClientConfig,
  Clients,
  Config,
  Limits,
  OwnedKey,
  RouteConfig,
} from '../config/config.ts'

export interface BlastRadius {
  /** Revisions. */
  readonly from: string
  readonly to: string
  readonly clients: {
    readonly added: readonly string[]
    readonly removed: readonly string[]
    /** Between plans. */
    readonly moved: readonly {
      readonly client: string
      readonly from: string
      readonly to: string
    }[]
  }
  /** Of clients that stay. Lowered: in at least one window. */
  readonly limits: {
    readonly lowered: readonly ChangedLimits[]
    readonly raised: readonly ChangedLimits[]
  }
  /** A key whose secret or client is another one is both. Changed: when it expires. */
  readonly keys: Changes<NamedKey> & { readonly revoked: readonly NamedKey[] }
  readonly routes: Changes<string> & { readonly removed: readonly string[] }
  /** All other keys of the file that change, as `upstream.urls`; plans as `plans.pro`. */
  readonly settings: readonly string[]
  /** Those of them that are taken at a start only. */
  readonly needsRestart: readonly string[]
}

interface NamedKey {
  readonly key: string
  readonly client: string
}

interface Changes<Item> {
  readonly added: readonly Item[]
  readonly changed: readonly Item[]
}

export interface ChangedLimits {
  readonly client: string
  readonly from: Limits
  readonly to: Limits
}

const RESTART_ONLY = /^(?:server\.(?:listen|workers)|admin\.listen|store\..*)$/

type ComparableClients = Pick<Clients, 'get' | 'keyById'> & Iterable<ClientConfig>

/** As much of a configuration as is compared. */
interface Comparable extends Omit<Config, 'clients'> {
  readonly clients: ComparableClients
}

/** Clients, keys and routes in the order of the file that has them; those of both in the order of `next`. */
export function blastRadius(current: Comparable, next: Comparable): BlastRadius {
  const steps = blastRadiusInSteps(current, next)
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

/** The same in short pieces of work, as there may be a million clients. */
export function* blastRadiusInSteps(
  current: Comparable,
  next: Comparable,
): Generator<void, BlastRadius> {
  const after = yield* differing(next.clients, current.clients)
  const before = yield* differing(current.clients, next.clients)
  const settings = changedSettings(current, next)
  return {
    from: current.revision,
    to: next.revision,
    ...(yield* changedClients({ before, current: current.clients }, { after, next: next.clients })),
    keys: yield* changedKeys({ before, current: current.clients }, { after, next: next.clients }),
    routes: changedRoutes(current.routes, next.routes),
    settings,
    needsRestart: settings.filter((path) => RESTART_ONLY.test(path)),
  }
}

const isRing = (clients: ComparableClients): clients is Clients => 'notIn' in clients

/** Those of the one that the other does not have just so; all of them, where that cannot be told quickly. */
function* differing(
  one: ComparableClients,
  other: ComparableClients,
): Generator<void, ClientConfig[]> {
  const list: ClientConfig[] = []
  for (const client of isRing(one) && isRing(other) ? one.notIn(other) : one) {
    if (client === undefined) yield
    else list.push(client)
  }
  return list
}

/** What differing gave, and all. */
interface Before {
  readonly before: readonly ClientConfig[]
  readonly current: ComparableClients
}
interface After {
  readonly after: readonly ClientConfig[]
  readonly next: ComparableClients
}

function* changedClients(
  { before, current }: Before,
  { after, next }: After,
): Generator<void, Pick<BlastRadius, 'clients' | 'limits'>> {
  const added: string[] = []
  const moved: BlastRadius['clients']['moved'][number][] = []
  const lowered: ChangedLimits[] = []
  const raised: ChangedLimits[] = []
  for (const { id: client, plan, limits } of after) {
    yield
    const was = current.get(client)
    if (was === undefined) {
      added.push(client)
      continue
    }
    if (was.plan !== plan) moved.push({ client, from: was.plan, to: plan })
    const { perMinute, perDay } = was.limits
    if (limits.perMinute === perMinute && limits.perDay === perDay) continue
    const isLowered = limits.perMinute < perMinute || limits.perDay < perDay
    const changed = isLowered ? lowered : raised
    changed.push({ client, from: was.limits, to: limits })
  }
  const removed: string[] = []
  for (const { id } of before) {
    yield
    if (next.get(id) === undefined) removed.push(id)
  }
  return { clients: { added, removed, moved }, limits: { lowered, raised } }
}

function* changedKeys(
  { before, current }: Before,
  { after, next }: After,
): Generator<void, BlastRadius['keys']> {
  const added: NamedKey[] = []
  const changed: NamedKey[] = []
  const revoked: NamedKey[] = []
  const replacing: NamedKey[] = []
  const replaced: NamedKey[] = []
  for (const is of keysOf(after)) {
    yield
    const was = current.keyById(is.key.id)
    if (was === undefined) added.push(named(is))
    else if (isReplaced(was, is)) {
      replacing.push(named(is))
      replaced.push(named(was))
    } else if (was.key.expiresAtMs !== is.key.expiresAtMs) changed.push(named(is))
  }
  for (const was of keysOf(before)) {
    yield
    if (next.keyById(was.key.id) === undefined) revoked.push(named(was))
  }
  return { added: [...added, ...replacing], changed, revoked: [...revoked, ...replaced] }
}

function* keysOf(clients: readonly ClientConfig[]): Generator<OwnedKey> {
  for (const client of clients) for (const key of client.keys) yield { client, key }
}

const isReplaced = (was: OwnedKey, is: OwnedKey): boolean =>
  was.key.sha256 !== is.key.sha256 || was.client.id !== is.client.id

const named = ({ key, client }: OwnedKey): NamedKey => ({ key: key.id, client: client.id })

function changedRoutes(
  current: readonly RouteConfig[],
  next: readonly RouteConfig[],
): BlastRadius['routes'] {
  const before = new Map(current.map((route) => [route.name, route]))
  const after = new Set(next.map(({ name }) => name))
  const names = (routes: readonly RouteConfig[]): string[] => routes.map(({ name }) => name)
  return {
    added: names(next.filter(({ name }) => !before.has(name))),
    removed: names(current.filter(({ name }) => !after.has(name))),
    changed: names(
      next.filter((route) => {
        const was = before.get(route.name)
        return was !== undefined && !isDeepStrictEqual(was, route)
      }),
    ),
  }
}

function changedSettings(current: Comparable, next: Comparable): string[] {
  const before = settingsOf(current)
  const after = settingsOf(next)
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((path) => !isDeepStrictEqual(before.get(path), after.get(path)))
    .sort()
}

/** By their path in the file, two steps of it. */
function settingsOf(config: Comparable): Map<string, unknown> {
  const { clients: _c, routes: _r, revision: _v, warnings: _w, plans, ...sections } = config
  const settings = new Map<string, unknown>()
  for (const [section, values] of Object.entries({ ...sections, plans: Object.fromEntries(plans) }))
    if (typeof values === 'object')
      for (const [key, value] of Object.entries(values as object))
        // The file has the unit beside the number, the name has it here.
        settings.set(`${section}.${key.replace(/Ms$/, '')}`, value)
    else settings.set(section, values)
  return settings
}
