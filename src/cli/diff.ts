/** `tollgate diff`: what a new configuration would change, and for whom. */
import type { Limits } from '../config/config.ts'
import { ConfigError } from '../config/problems.ts'
import { blastRadius, type BlastRadius, type ChangedLimits } from '../rules/blast-radius.ts'
import { OK, REFUSED, type Edge } from './edge.ts'
import { loadUsableConfig } from './load-usable-config.ts'

/** Of a longer list the rest is counted. */
const NAMES_SHOWN = 20

/** Prints a line per kind of change, or with --json the BlastRadius. */
export const diffCommand = async (
  { env, print }: Pick<Edge, 'env' | 'print'>,
  { files, json }: { readonly files: readonly [string, string]; readonly json: boolean },
): Promise<number> => {
  try {
    const [current, next] = await Promise.all(files.map((file) => loadUsableConfig(file, env)))
    if (current === undefined || next === undefined) throw new Error('two files were loaded')
    const radius = blastRadius(current, next)
    for (const line of json ? [JSON.stringify(radius, undefined, 2)] : inWords(radius)) print(line)
    return OK
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    for (const line of error.format()) print(line)
    return REFUSED
  }
}

function inWords(radius: BlastRadius): string[] {
  const { from, to, clients, limits, keys, routes, settings, needsRestart } = radius
  const lines = [
    line('-', 'client', clients.removed),
    line('+', 'client', clients.added),
    line('>', 'client moved', clients.moved, (one) => `${one.client} ${one.from} to ${one.to}`),
    line('v', 'limit lowered', limits.lowered, limitsInWords),
    line('^', 'limit raised', limits.raised, limitsInWords),
    line('-', 'key', keys.revoked, keyInWords),
    line('+', 'key', keys.added, keyInWords),
    line('~', 'key with another expiry', keys.changed, keyInWords),
    line('-', 'route', routes.removed),
    line('+', 'route', routes.added),
    line('~', 'route', routes.changed),
    line('~', 'setting', settings),
    line('!', 'setting taken at a start only', needsRestart),
  ].filter((text) => text !== undefined)
  const head = from === to ? `${from}: the same file` : `${from} to ${to}`
  return [lines.length === 0 ? `${head}, nothing changes` : head, ...lines]
}

/** what: a noun, and how it changes. */
function line<Item>(
  sign: string,
  what: string,
  items: readonly Item[],
  name: (item: Item) => string = String,
): string | undefined {
  if (items.length === 0) return undefined
  const counted = items.length === 1 ? what : what.replace(/^\w+/, '$&s')
  const names = items.slice(0, NAMES_SHOWN).map(name).join(', ')
  const rest = items.length > NAMES_SHOWN ? `, and ${items.length - NAMES_SHOWN} more` : ''
  return `${sign} ${items.length} ${counted}: ${names}${rest}`
}

const keyInWords = ({ key, client }: { key: string; client: string }): string =>
  `${key} (${client})`
const inFigures = ({ perMinute, perDay }: Limits): string => `${perMinute}/min ${perDay}/day`
const limitsInWords = ({ client, from, to }: ChangedLimits): string =>
  `${client} ${inFigures(from)} to ${inFigures(to)}`
