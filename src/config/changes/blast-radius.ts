/** What a new configuration changes for whom, before or after it is taken, and what comes of a reload. */
import { setImmediate } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { locationOf } from '../locations.ts'
import { limitKeys } from '../time.ts'
import type { ClientConfig, Clients, Config, Limits, OwnedKey, RouteConfig } from '../config.ts'
import type { Group } from '../tree.ts'

export interface BlastRadius {
  /** Revisions of the two configurations. */
  readonly from: string
  readonly to: string
  readonly clients: {
    readonly added: readonly string[]
    readonly removed: readonly string[]
    /** Clients that change plans. */
    readonly moved: readonly Moved[]
  }
  /** Changed limits of clients that stay; lowered means lowered in at least one window. */
  readonly limits: Readonly<Record<'lowered' | 'raised', readonly ChangedLimits[]>>
  /** A key with another secret or client is listed as added and as revoked; changed: it expires at another time. */
  readonly keys: Readonly<Record<'added' | 'revoked' | 'changed', readonly NamedKey[]>>
  readonly routes: Readonly<Record<'added' | 'removed' | 'changed', readonly string[]>>
  /** Paths of all other settings that change, such as `upstream.urls`; a plan is `plans.pro`. */
  readonly settings: readonly string[]
  /** Settings among them that take effect at a start only. */
  readonly needsRestart: readonly string[]
  /** Full lengths of lists by path, such as `clients.added`, as lists may be cut; empty ones are left out. */
  readonly counts: Readonly<Record<string, number>>
}

interface Moved {
  readonly client: string
  readonly from: string
  readonly to: string
}

interface NamedKey {
  readonly key: string
  readonly client: string
}

export interface ChangedLimits {
  readonly client: string
  /** The plan that it has then. */
  readonly plan: string
  readonly from: Limits
  readonly to: Limits
  /** FILE:LINE of the plan in the next configuration; undefined: no file has it, or the limits are the client's own. */
  readonly location?: string | undefined
}

export interface ReloadWish {
  /** Reports what would change, and takes nothing. */
  readonly dryRun?: boolean
  /** Takes only this revision; undefined: whatever the files say now. */
  readonly revision?: string
}

/** Clients with lowered limits that have already used up the new limits: they would be refused at once. */
export interface OverNow {
  readonly asOf: string
  readonly scope: 'store'
  readonly missing?: readonly string[]
  /** Number of clients with lowered limits. */
  readonly of: number
  /** Number of them that were looked at; `missing` says why it is lower. */
  readonly lookedAt: number
  readonly count: number
  /** Ids of the first of them. */
  readonly clients: readonly string[]
}

export type ReloadOutcome =
  | {
      readonly outcome: 'taken' | 'wouldBeTaken'
      readonly revision: string
      readonly blastRadius: BlastRadius
      /** Present where nothing is taken. */
      readonly over?: OverNow
      /** The settings of the files, as in Config. Present where nothing is taken. */
      readonly written?: Group
    }
  /** The configuration in force stays; problems: lines for a person to read. */
  | { readonly outcome: 'refused'; readonly revision: string; readonly problems: readonly string[] }
  /** The files have another revision than the requested one. */
  | { readonly outcome: 'filesChanged'; readonly revision: string }

const RESTART_ONLY = /^(?:server\.(?:listen|workers)|admin\.listen|store\..*)$/

/**
 * Lists clients, keys and routes in the order of the file that has them; those in both files follow the order of `next`. All
 * changes are counted, but no list gets longer than `longest`: the garbage collector copies long-lived objects, which delays
 * requests. They are served meanwhile.
 */
export async function blastRadius(
  current: Config,
  next: Config,
  longest = Infinity,
): Promise<BlastRadius> {
  const lists = await clientChanges(current.clients, next, longest)
  const settings = changedSettings(current, next)
  const needsRestart = settings.filter((path) => RESTART_ONLY.test(path))
  const routes = changedRoutes(current.routes, next.routes)
  const [from, to] = [current.revision, next.revision]
  return shortened({ from, to, ...lists, routes, settings, needsRestart }, longest)
}

async function clientChanges(current: Clients, config: Config, longest: number) {
  const { clients: next, plans } = config
  const locations = new Map<string, string | null>()
  for (const [plan, { limits }] of plans)
    if (limits !== undefined) locations.set(plan, locationOf(config, { path: ['plans', plan] }))
  const counts: Record<string, number> = {}
  const clients = { added: [] as string[], removed: [] as string[], moved: [] as Moved[] }
  const limits = { lowered: [] as ChangedLimits[], raised: [] as ChangedLimits[] }
  const keys = { added: [] as NamedKey[], revoked: [] as NamedKey[], changed: [] as NamedKey[] }
  const note = <Item>(path: string, list: Item[], item: Item): void => {
    counts[path] = (counts[path] ?? 0) + 1
    if (list.length < longest) list.push(item)
  }
  for await (const is of differing(next, current)) {
    const was = current.get(is.id)
    if (was === undefined) note('clients.added', clients.added, is.id)
    else {
      const { id: client, plan } = is
      if (was.plan !== plan)
        note('clients.moved', clients.moved, { client, from: was.plan, to: plan })
      const location = locations.get(plan) ?? undefined
      const changed = { client, plan, from: was.limits, to: is.limits, location }
      if (isLowered(was.limits, is.limits)) note('limits.lowered', limits.lowered, changed)
      else if (isLowered(is.limits, was.limits)) note('limits.raised', limits.raised, changed)
    }
    for (const key of is.keys) {
      const owned = { client: is, key }
      const before = current.keyById(key.id)
      if (before === undefined || isReplaced(before, owned))
        note('keys.added', keys.added, named(owned))
      else if (before.key.expiresAtMs !== key.expiresAtMs)
        note('keys.changed', keys.changed, named(owned))
    }
  }
  for await (const was of differing(current, next)) {
    if (next.get(was.id) === undefined) note('clients.removed', clients.removed, was.id)
    for (const key of was.keys) {
      const owned = { client: was, key }
      const after = next.keyById(key.id)
      if (after === undefined || isReplaced(owned, after))
        note('keys.revoked', keys.revoked, named(owned))
    }
  }
  return { clients, limits, keys, counts }
}

/** Cuts each list, and adds its full length where counts lacks it. */
export function shortened(
  { counts: counted = {}, ...lists }: Omit<BlastRadius, 'counts'> & Partial<BlastRadius>,
  longest: number,
): BlastRadius {
  const counts = { ...counted }
  const cut = (value: unknown, path: readonly string[]): unknown => {
    if (Array.isArray(value)) {
      if (value.length > 0) counts[path.join('.')] ??= value.length
      return value.slice(0, longest)
    }
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, inner]) => [name, cut(inner, [...path, name])]),
    )
  }
  return { ...(cut(lists, []) as typeof lists), counts }
}

/** Whether the limit of at least one window is lower. */
export const isLowered = (from: Limits, to: Limits): boolean =>
  limitKeys.some((key) => to[key] < from[key])

/** Time in which this thread compares clients before requests are served again. */
const SLICE_MS = 2

/** Clients of the one that the other lacks or has differently; requests are served meanwhile, as there may be a million. */
export async function* differing(one: Clients, other: Clients): AsyncGenerator<ClientConfig> {
  let endMs = performance.now() + SLICE_MS
  for (const client of one.notIn(other)) {
    if (client !== undefined) yield client
    if (performance.now() < endMs) continue
    await setImmediate()
    endMs = performance.now() + SLICE_MS
  }
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
  const names = (all: readonly RouteConfig[], isIt: (route: RouteConfig) => boolean): string[] =>
    all.filter(isIt).map(({ name }) => name)
  return {
    added: names(next, ({ name }) => !before.has(name)),
    removed: names(current, ({ name }) => !after.has(name)),
    changed: names(next, (route) => {
      const was = before.get(route.name)
      return was !== undefined && !isDeepStrictEqual(was, route)
    }),
  }
}

function changedSettings(current: Config, next: Config): string[] {
  const before = settingsOf(current)
  const after = settingsOf(next)
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((path) => !isDeepStrictEqual(before.get(path), after.get(path)))
    .sort()
}

/** Settings by the first two steps of their path in the file. */
function settingsOf(config: Config): Map<string, unknown> {
  const { plans, clients: _c, routes: _r, revision: _v, warnings: _w, ...others } = config
  const { certificates: _e, written: _t, locations: _l, store: stored, ...sections } = others
  // It follows from the settings.
  const { shared: _s, ...store } = stored
  const settings = new Map<string, unknown>()
  const live: Record<string, unknown> = {}
  for (const [name, { shadow, ...plan }] of plans) {
    live[name] = plan
    // A shadow limit is only tried and limits nobody.
    if (shadow !== undefined) live[`${name}.shadow`] = shadow
  }
  for (const [section, values] of Object.entries({ ...sections, store, plans: live }))
    if (typeof values === 'object')
      for (const [key, value] of Object.entries(values as object))
        // The file has the unit beside the number; here the name has it.
        settings.set(`${section}.${key.replace(/Ms$/, '')}`, value)
    else settings.set(section, values)
  return settings
}
