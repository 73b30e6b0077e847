/** What a configuration changes for whom, as lines of text. */
import type { Limits } from '../config.ts'
import type { BlastRadius, BoundedRadius, ChangedLimits } from './blast-radius.ts'

/** Names shown of a list; the rest is counted. */
const NAMES_SHOWN = 20
const RESTART = 'taken at a start only, a reload refuses the whole file for this'

/** Returns a heading, then a line per kind of change. */
export function inWords(radius: BlastRadius & Partial<BoundedRadius>): string[] {
  const { from, to, clients, limits, keys, routes, settings, needsRestart, counts = {} } = radius
  const line = wordsWith(counts)
  const lines = [
    line('-', 'client', 'clients.removed', clients.removed),
    line('+', 'client', 'clients.added', clients.added),
    line('>', 'client moved', 'clients.moved', clients.moved, movedInWords),
    line('v', 'limit lowered', 'limits.lowered', limits.lowered, limitsInWords),
    line('^', 'limit raised', 'limits.raised', limits.raised, limitsInWords),
    line('-', 'key', 'keys.revoked', keys.revoked, keyInWords),
    line('+', 'key', 'keys.added', keys.added, keyInWords),
    line('~', 'key with another expiry', 'keys.changed', keys.changed, keyInWords),
    line('-', 'route', 'routes.removed', routes.removed),
    line('+', 'route', 'routes.added', routes.added),
    line('~', 'route', 'routes.changed', routes.changed),
    line('~', 'setting', 'settings', settings),
    line('!', `setting ${RESTART}`, 'needsRestart', needsRestart),
  ].filter((text) => text !== undefined)
  const head = from === to ? `${from}: the same file` : `${from} to ${to}`
  return [lines.length === 0 ? `${head}, nothing changes` : head, ...lines]
}

/** counts: full lengths of cut lists, by path. The returned function takes a sign, a noun with its kind of change, the path and the list. */
const wordsWith =
  (counts: BoundedRadius['counts']) =>
  <Item>(
    ...[sign, what, path, items, name = String]: [
      sign: string,
      what: string,
      path: string,
      items: readonly Item[],
      name?: (item: Item) => string,
    ]
  ): string | undefined => {
    const count = counts[path] ?? items.length
    if (count === 0) return undefined
    const counted = count === 1 ? what : what.replace(/^\w+/, '$&s')
    const names = items.slice(0, NAMES_SHOWN)
    const rest = count > names.length ? `, and ${count - names.length} more` : ''
    return `${sign} ${count} ${counted}: ${names.map(name).join(', ')}${rest}`
  }

const keyInWords = ({ key, client }: { key: string; client: string }): string =>
  `${key} (${client})`
const movedInWords = ({ client, from, to }: BlastRadius['clients']['moved'][number]): string =>
  `${client} ${from} to ${to}`
const inFigures = ({ perMinute, perDay }: Limits): string => `${perMinute}/min ${perDay}/day`
const limitsInWords = ({ client, from, to }: ChangedLimits): string =>
  `${client} ${inFigures(from)} to ${inFigures(to)}`
