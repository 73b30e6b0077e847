/** What a new configuration changes for whom, before or after it is taken. */
import { isDeepStrictEqual } from 'node:util'
import type { ClientConfig, Config, Limits, RouteConfig } from '../config/config.ts'

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
  readonly keys: Changes<{ readonly key: string; readonly client: string }> & {
    readonly revoked: readonly { readonly key: string; readonly client: string }[]
  }
  readonly routes: Changes<string> & { readonly removed: readonly string[] }
  /** All other keys of the file that change, as `upstream.urls`; plans as `plans.pro`. */
  readonly settings: readonly string[]
  /** Those of them that are taken at a start only. */
  readonly needsRestart: readonly string[]
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

/** Clients, keys and routes in the order of the file that has them; those of both in the order of `next`. */
export function blastRadius(current: Config, next: Config): BlastRadius {
  const clients = compared(current.clients, next.clients, ({ id }) => id)
  const keys = compared(keysOf(current), keysOf(next), ({ id }) => id)
  const routes = compared(current.routes, next.routes, ({ name }) => name)
  const keysReplaced = keys.kept.filter(isReplaced)
  const settings = changedSettings(current, next)
  return {
    from: current.revision,
    to: next.revision,
    clients: {
      added: clients.added.map(({ id }) => id),
      removed: clients.removed.map(({ id }) => id),
      moved: clients.kept
        .filter(([was, is]) => was.plan !== is.plan)
        .map(([{ plan }, is]) => ({ client: is.id, from: plan, to: is.plan })),
    },
    limits: changedLimits(clients.kept),
    keys: {
      added: [...keys.added, ...keysReplaced.map(([, is]) => is)].map(named),
      revoked: [...keys.removed, ...keysReplaced.map(([was]) => was)].map(named),
      changed: keys.kept
        .filter((pair) => !isReplaced(pair) && pair[0].expiresAtMs !== pair[1].expiresAtMs)
        .map(([, is]) => named(is)),
    },
    routes: {
      added: routes.added.map(({ name }) => name),
      removed: routes.removed.map(({ name }) => name),
      changed: routes.kept.filter(isOther).map(([, { name }]) => name),
    },
    settings,
    needsRestart: settings.filter((path) => RESTART_ONLY.test(path)),
  }
}

type Pair<Item> = readonly [Item, Item]

const isOther = (pair: Pair<RouteConfig>): boolean => !isDeepStrictEqual(...pair)

function compared<Item>(
  current: readonly Item[],
  next: readonly Item[],
  idOf: (item: Item) => string,
) {
  const before = new Map(current.map((item) => [idOf(item), item]))
  const after = new Set(next.map(idOf))
  const kept: Pair<Item>[] = []
  const added: Item[] = []
  for (const item of next) {
    const was = before.get(idOf(item))
    if (was === undefined) added.push(item)
    else kept.push([was, item])
  }
  return { added, kept, removed: current.filter((item) => !after.has(idOf(item))) }
}

const keysOf = ({ clients }: Config) =>
  clients.flatMap(({ id: client, keys }) => keys.map((key) => ({ ...key, client })))

type OwnedKey = ReturnType<typeof keysOf>[number]

const isReplaced = ([was, is]: Pair<OwnedKey>): boolean =>
  was.sha256 !== is.sha256 || was.client !== is.client

const named = ({ id, client }: OwnedKey) => ({ key: id, client })

function changedLimits(kept: readonly Pair<ClientConfig>[]): BlastRadius['limits'] {
  const changed = kept
    .filter(([was, is]) => !isDeepStrictEqual(was.limits, is.limits))
    .map(([{ limits }, is]) => ({ client: is.id, from: limits, to: is.limits }))
  const isLowered = ({ from, to }: ChangedLimits): boolean =>
    to.perMinute < from.perMinute || to.perDay < from.perDay
  return {
    lowered: changed.filter(isLowered),
    raised: changed.filter((one) => !isLowered(one)),
  }
}

function changedSettings(current: Config, next: Config): string[] {
  const before = settingsOf(current)
  const after = settingsOf(next)
  return [...new Set([...before.keys(), ...after.keys()])]
    .filter((path) => !isDeepStrictEqual(before.get(path), after.get(path)))
    .sort()
}

/** By their path in the file, two steps of it. */
function settingsOf(config: Config): Map<string, unknown> {
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
