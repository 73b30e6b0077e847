/** What a configuration changes for whom, as lines of text. */
import { windows } from '../time.ts'
import type { BlastRadius, ChangedLimits } from './blast-radius.ts'

/** Names shown of a list; the rest is counted. */
const NAMES_SHOWN = 20
const RESTART = 'taken at a start only, a reload refuses the whole file for this'

/** Changes of limits shown, and clients named of each. */
const SHOWN = 10

/** A sign, a noun with its kind of change, the path of a list in the radius, and what it names. */
type Row = readonly [sign: string, what: string, path: string, names: readonly string[]]

/** Returns a heading, then a line per kind of change; of limits a table by plan, and whom they hit: those of `nearest` first. */
export function inWords(radius: BlastRadius, nearest: readonly string[] = []): string[] {
  const { from, to, clients, limits, keys, routes, settings, needsRestart, counts } = radius
  const inRows = (rows: readonly Row[]): string[] =>
    rows.flatMap(([sign, what, path, names]) => {
      const count = counts[path] ?? names.length
      if (count === 0) return []
      const counted = count === 1 ? what : what.replace(/^\w+/, '$&s')
      const shown = names.slice(0, NAMES_SHOWN)
      const rest = count > shown.length ? `, and ${count - shown.length} more` : ''
      return [`${sign} ${count} ${counted}: ${shown.join(', ')}${rest}`]
    })
  const lines = [
    ...inRows([
      ['-', 'client', 'clients.removed', clients.removed],
      ['+', 'client', 'clients.added', clients.added],
      ['>', 'client moved', 'clients.moved', clients.moved.map(movedInWords)],
    ]),
    ...limitsInWords('v', limits.lowered, counts['limits.lowered'], nearest),
    ...limitsInWords('^', limits.raised, counts['limits.raised'], nearest),
    ...inRows([
      ['-', 'key', 'keys.revoked', keys.revoked.map(keyInWords)],
      ['+', 'key', 'keys.added', keys.added.map(keyInWords)],
      ['~', 'key with another expiry', 'keys.changed', keys.changed.map(keyInWords)],
      ['-', 'route', 'routes.removed', routes.removed],
      ['+', 'route', 'routes.added', routes.added],
      ['~', 'route', 'routes.changed', routes.changed],
      ['~', 'setting', 'settings', settings],
      ['!', `setting ${RESTART}`, 'needsRestart', needsRestart],
    ]),
  ]
  const head = from === to ? `${from}: the same file` : `${from} to ${to}`
  return [lines.length === 0 ? `${head}, nothing changes` : head, ...lines]
}

/** The same before it is taken: also says that nothing needs a restart. */
export const plannedInWords = (...[radius, nearest]: Parameters<typeof inWords>): string[] => {
  const lines = inWords(radius, nearest)
  const isQuiet = lines.length === 1 || radius.needsRestart.length > 0
  return isQuiet ? lines : [...lines, 'Nothing needs a restart.']
}

/** A row for each plan and change, those that hit the most clients first, with some of them below. total: of a list that is cut. */
function limitsInWords(
  sign: string,
  changed: readonly ChangedLimits[],
  total = changed.length,
  nearest: readonly string[],
): string[] {
  const groups = [...Map.groupBy(changed, (one) => `${one.plan}  ${changeInWords(one)}`)]
  const shown = groups.sort(([, one], [, other]) => other.length - one.length).slice(0, SHOWN)
  const lines = shown.flatMap(([change, hit]) => {
    const row = [`${sign} ${change}`, clientsInWords(hit.length), hit[0]?.location ?? []].flat()
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
  windows
    .filter(({ limit }) => from[limit] !== to[limit])
    .map(({ limit, most }) => {
      const shown = (value: number) => (value < most ? inDigits(value) : 'unlimited')
      return `${limit} ${shown(from[limit])} to ${shown(to[limit])}`
    })
    .join(', ')

const keyInWords = ({ key, client }: { key: string; client: string }): string =>
  `${key} (${client})`
const movedInWords = ({ client, from, to }: BlastRadius['clients']['moved'][number]): string =>
  `${client} ${from} to ${to}`
