/** What a new configuration changes for whom, before or after it is taken. */
import { isDeepStrictEqual } from 'node:util'
import type { ClientConfig, Clients, Config, Limits, OwnedKey, RouteConfig } from '../config.ts'

export interface BlastRadius {
  /** Revisions of the two configurations. */
  readonly from: string
  readonly to: string
  readonly clients: {
    readonly added: readonly string[]
    readonly removed: readonly string[]
    /** Clients that change plans. */
    readonly moved: readonly {
      readonly client: string
      readonly from: string
      readonly to: string
    }[]
  }
  /** Changed limits of clients that stay; lowered means lowered in at least one window. */
  readonly limits: {
    readonly lowered: readonly ChangedLimits[]
    readonly raised: readonly ChangedLimits[]
  }
  /** A key with another secret or client is listed as added and as revoked; changed: it expires at another time. */
  readonly keys: Changes<NamedKey> & { readonly revoked: readonly NamedKey[] }
  readonly routes: Changes<string> & { readonly removed: readonly string[] }
  /** Paths of all other settings that change, such as `upstream.urls`; a plan is `plans.pro`. */
  readonly settings: readonly string[]
  /** Settings among them that take effect at a start only. */
  readonly needsRestart: readonly string[]
}

/** A BlastRadius whose lists may be cut; counts has their full lengths by path, such as `clients.added`. */
export interface BoundedRadius extends BlastRadius {
  readonly counts: Readonly<Record<string, number>>
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
  /** The plan that it has then. */
  readonly plan: string
  readonly from: Limits
  readonly to: Limits
}

const RESTART_ONLY = /^(?:server\.(?:listen|workers)|admin\.listen|store\..*)$/

type ComparableClients = Pick<Clients, 'get' | 'keyById'> & Iterable<ClientConfig>

/** The part of a configuration that is compared. */
interface Comparable extends Omit<Config, 'clients'> {
  readonly clients: ComparableClients
}

/** Lists clients, keys and routes in the order of the file that has them; those in both files follow the order of `next`. */
export function blastRadius(current: Comparable, next: Comparable): BlastRadius {
  const steps = blastRadiusInSteps(current, next, Infinity)
  for (;;) {
    const { done, value } = steps.next()
    if (done !== true) continue
    const { counts: _, ...radius } = value
    return radius
  }
}

/**
 * Does the same in short steps, as there may be a million clients. Clients and keys are all counted, but no list of them gets
 * longer than `longest`: the garbage collector copies long-lived objects, which delays requests.
 */
export function* blastRadiusInSteps(
  current: Comparable,
  next: Comparable,
  longest: number,
): Generator<void, BoundedRadius> {
  const counts: Record<string, number> = {}
  const lists: ByClient = {
    clients: { added: [], removed: [], moved: [] },
    limits: { lowered: [], raised: [] },
    keys: { added: [], revoked: [], changed: [] },
  }
  for (const change of clientChanges(current.clients, next.clients)) {
    yield
    if (change === undefined) continue
    const [group, kind, item] = change
    const list = (lists[group] as Record<typeof kind, unknown[]>)[kind]
    const path = `${group}.${kind}`
    counts[path] = (counts[path] ?? 0) + 1
    if (list.length < longest) list.push(item)
  }
  const settings = changedSettings(current, next)
  return {
    from: current.revision,
    to: next.revision,
    ...lists,
    routes: changedRoutes(current.routes, next.routes),
    settings,
    needsRestart: settings.filter((path) => RESTART_ONLY.test(path)),
    counts,
  }
}

/** The lists that grow with the number of clients. */
type ByClient = Pick<BlastRadius, 'clients' | 'limits' | 'keys'>

/** An item of one of those lists. */
type ClientChange = {
  [Group in keyof ByClient]: {
    [Kind in keyof ByClient[Group]]: ByClient[Group][Kind] extends readonly (infer Item)[]
      ? readonly [group: Group, kind: Kind, item: Item]
      : never
  }[keyof ByClient[Group]]
}[keyof ByClient]

/** Yields each change of a client or key; undefined: a step of the search. */
function* clientChanges(
  current: ComparableClients,
  next: ComparableClients,
): Generator<ClientChange | undefined> {
  for (const is of differing(next, current)) {
    yield undefined
    if (is === undefined) continue
    const was = current.get(is.id)
    if (was === undefined) yield ['clients', 'added', is.id]
    else yield* changedTerms(was, is)
    for (const key of is.keys) {
      const owned = { client: is, key }
      const before = current.keyById(key.id)
      if (before === undefined || isReplaced(before, owned)) yield ['keys', 'added', named(owned)]
      else if (before.key.expiresAtMs !== key.expiresAtMs) yield ['keys', 'changed', named(owned)]
    }
  }
  for (const was of differing(current, next)) {
    yield undefined
    if (was === undefined) continue
    if (next.get(was.id) === undefined) yield ['clients', 'removed', was.id]
    for (const key of was.keys) {
      const owned = { client: was, key }
      const after = next.keyById(key.id)
      if (after === undefined || isReplaced(owned, after)) yield ['keys', 'revoked', named(owned)]
    }
  }
}

function* changedTerms(was: ClientConfig, is: ClientConfig): Generator<ClientChange> {
  const { id: client, plan } = is
  if (was.plan !== plan) yield ['clients', 'moved', { client, from: was.plan, to: plan }]
  const changed = { client, plan, from: was.limits, to: is.limits }
  if (isLowered(was.limits, is.limits)) yield ['limits', 'lowered', changed]
  else if (isLowered(is.limits, was.limits)) yield ['limits', 'raised', changed]
}

/** Yields the clients of both configurations with lowered limits; undefined: a step of the search. */
export function* loweredIn(
  current: ComparableClients,
  next: ComparableClients,
): Generator<ChangedLimits | undefined> {
  for (const change of clientChanges(current, next))
    yield change?.[1] === 'lowered' ? change[2] : undefined
}

/** Whether the limit of at least one window is lower. */
export const isLowered = (from: Limits, to: Limits): boolean =>
  to.perMinute < from.perMinute || to.perDay < from.perDay

const isClientTable = (clients: ComparableClients): clients is Clients => 'notIn' in clients

/** Clients of the one that the other lacks or has differently; all of them where that cannot be found out quickly. */
const differing = (
  one: ComparableClients,
  other: ComparableClients,
): Iterable<ClientConfig | undefined> =>
  isClientTable(one) && isClientTable(other) ? one.notIn(other) : one

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

/** Settings by the first two steps of their path in the file. */
function settingsOf(config: Comparable): Map<string, unknown> {
  const { plans, clients: _c, routes: _r, revision: _v, warnings: _w, ...others } = config
  const { certificates: _e, ...sections } = others
  const settings = new Map<string, unknown>()
  const live: Record<string, unknown> = {}
  for (const [name, { shadow, ...plan }] of plans) {
    live[name] = plan
    // A shadow limit is only tried and limits nobody.
    if (shadow !== undefined) live[`${name}.shadow`] = shadow
  }
  for (const [section, values] of Object.entries({ ...sections, plans: live }))
    if (typeof values === 'object')
      for (const [key, value] of Object.entries(values as object))
        // The file has the unit beside the number; here the name has it.
        settings.set(`${section}.${key.replace(/Ms$/, '')}`, value)
    else settings.set(section, values)
  return settings
}
