/** What a configuration changes for whom, as lines of text. */
import type { BlastRadius, BoundedRadius, ChangedLimits } from './blast-radius.ts'

/** Names shown of a list; the rest is counted. */
const NAMES_SHOWN = 20
const RESTART = 'taken at a start only, a reload refuses the whole file for this'

/** Changes of limits shown, and clients named of each. */
const SHOWN = 10

/** What a person should know besides what changes. */
interface Known {
  /** Returns FILE:LINE of a plan. Default: nothing is said about places. */
  locationOf?(plan: string): string | undefined
  /** The clients that are hit first, such as those above their new limits now. They are named first. */
  readonly nearest?: readonly string[] | undefined
}

/** Returns a heading, then a line per kind of change; of limits a table by plan, and whom they hit. */
export function inWords(radius: BlastRadius & Partial<BoundedRadius>, known: Known = {}): string[] {
  const { from, to, clients, limits, keys, routes, settings, needsRestart, counts = {} } = radius
  const line = wordsWith(counts)
  const lines = [
    line('-', 'client', 'clients.removed', clients.removed),
    line('+', 'client', 'clients.added', clients.added),
    line('>', 'client moved', 'clients.moved', clients.moved, movedInWords),
    ...limitsInWords('v', limits.lowered, counts['limits.lowered'], known),
    ...limitsInWords('^', limits.raised, counts['limits.raised'], known),
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

/** The same before it is taken: also says that nothing needs a restart. */
export const plannedInWords = (...[radius, known]: Parameters<typeof inWords>): string[] => {
  const lines = inWords(radius, known)
  const isQuiet = lines.length === 1 || radius.needsRestart.length > 0
  return isQuiet ? lines : [...lines, 'Nothing needs a restart.']
}

/** A row for each plan and change, those that hit the most clients first, with some of them below. total: of a list that is cut. */
function limitsInWords(
  sign: string,
  changed: readonly ChangedLimits[],
  total = changed.length,
  { locationOf, nearest = [] }: Known,
): string[] {
  const groups = [...Map.groupBy(changed, (one) => `${one.plan}  ${changeInWords(one)}`)]
  const shown = groups.sort(([, one], [, other]) => other.length - one.length).slice(0, SHOWN)
  const lines = shown.flatMap(([change, hit]) => {
    const location = locationOf?.(hit[0]?.plan ?? '')
    const row = [`${sign} ${change}`, clientsInWords(hit.length), ...(location ? [location] : [])]
    const all = new Set(hit.map(({ client }) => client))
    const names = [...new Set([...nearest.filter((id) => all.has(id)), ...all])].slice(0, SHOWN)
    const others = all.size - names.length
    const more = others > 0 ? `, and ${inDigits(others)} more` : ''
    return [row.join('  '), `    ${names.join(', ')}${more}`]
  })
  const rest = total - shown.reduce((sum, [, hit]) => sum + hit.length, 0)
  return rest > 0 ? [...lines, `${sign} and ${clientsInWords(rest)} more, not listed`] : lines
}

const inDigits = (value: number): string => value.toLocaleString('en-US')
const clientsInWords = (many: number): string => `${inDigits(many)} client${many === 1 ? '' : 's'}`

/** Such as `perDay 1,000 to 500`: the windows that change. */
const changeInWords = ({ from, to }: ChangedLimits): string =>
  (['perMinute', 'perDay'] as const)
    .filter((key) => from[key] !== to[key])
    .map((key) => `${key} ${inDigits(from[key])} to ${inDigits(to[key])}`)
    .join(', ')

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
