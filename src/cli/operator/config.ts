/** `tollgate config`: prints the configuration in force with its defaults, as a file would have it; never a secret. */
import type { effectiveConfig } from '../../admin/effective-config.ts'
import { formatDurationMs, formatSizeBytes } from '../../config/durations.ts'
import { hostForUrl } from '../../config/hosts.ts'
import { plural } from '../../insight/format.js'
import { OK } from '../terminal/fault.ts'
import type { Declaration } from '../program.ts'
import { ask } from './admin-client.ts'
import type { Output } from '../edge.ts'
import { asking, gatewayOf, printAnswer, type Asking } from './asking.ts'

export const config: Declaration = (program, { once }) =>
  asking(program, 'config', 'the configuration in force with its defaults, as YAML').action(
    once(() => configCommand),
  )

async function configCommand(output: Output, options: Asking): Promise<number> {
  const gateway = gatewayOf(output, options)
  const answer = await ask<ReturnType<typeof effectiveConfig>>(gateway, '/api/config')
  await printAnswer(output, options, answer, async () => {
    // It takes time to load.
    const { stringify } = await import('../../config/document.ts')
    output.print(stringify(asWritten(answer.config), { lineWidth: 0 }).trimEnd())
    const next = `And ${plural(answer.clientCount, 'client')}: tollgate clients`
    if (output.screen !== undefined) output.complain(next)
  })
  return OK
}

type Value = string | number | boolean | null | readonly Value[] | Group
interface Group {
  readonly [key: string]: Value | undefined
}

/** Names that are the same in a file, whatever they end in. */
const sameNames = new Set(['headerBytes', 'bodyBytes', 'urlBytes', 'jwksFile'])
/** Durations are counted from 0, timestamps from 1970. */
const moments = new Set(['sinceMs', 'sunsetMs', 'fromMs', 'toMs'])
const shares = new Set(['atMost', 'budget', 'sample', 'share', 'at'])

/** The settings as a file has them: the admin API has units in the names (`idleMs`), and addresses and routes taken apart. Clients are left out. */
export function asWritten(given: object): object {
  const { clients: _, ...settings } = given as Record<string, Group>
  const { server = {}, store = {}, plans = {}, routes = [] } = settings
  return groupOf({
    ...settings,
    server: { ...server, basePath: server['basePath'] || '/' },
    store: storeOf(store),
    plans: Object.fromEntries(
      Object.entries(plans).map(([name, plan]) => [name, planOf(plan as Group)]),
    ),
    routes: (routes as readonly Group[]).map(routeOf),
  })
}

function written(name: string, value: Value): readonly [name: string, value: Value] {
  const bare = sameNames.has(name) ? name : name.replace(/(?:Ms|Bytes|File)$/, '')
  if (typeof value === 'number') {
    if (moments.has(name)) return [bare, new Date(value).toISOString()]
    if (name.endsWith('Ms')) return [bare, formatDurationMs(value)]
    if (name.endsWith('Bytes')) return [bare, formatSizeBytes(value)]
    return [name, shares.has(name) ? `${Math.round(value * 100)}%` : value]
  }
  if (Array.isArray(value))
    return [name, value.map((item: Value) => written(shares.has(name) ? name : '', item)[1])]
  return isGroup(value) ? [name, addressIn(value) ?? groupOf(value)] : [bare, value]
}

const groupOf = (group: Group): Group =>
  Object.fromEntries(
    Object.entries(group).flatMap(([name, value]) =>
      value === undefined ? [] : [written(name, value)],
    ),
  )

const isGroup = (value: Value): value is Group => typeof value === 'object' && value !== null

/** HOST:PORT, or the fixed name of upstream.host; undefined: the group is another. */
function addressIn({ host, port, name, ...others }: Group): string | undefined {
  if (Object.keys(others).length > 0) return undefined
  if (typeof host === 'string' && typeof port === 'number') return `${hostForUrl(host)}:${port}`
  return typeof name === 'string' && host === undefined ? name : undefined
}

function planOf(plan: Group): Group {
  const { name: _name, limits = { custom: true }, ...others } = plan
  return { ...(limits as Group), ...others }
}

const routeOf = ({ name, method, path, responseTimeoutMs, ...others }: Group): Group => ({
  name,
  match: `${method as string} ${path as string}`,
  ...others,
  ...(responseTimeoutMs !== undefined && { timeouts: { responseMs: responseTimeoutMs } }),
})

/** Without a file all is kept in memory. */
const storeOf = ({ redis, file = '', ...others }: Group): Group => ({
  ...others,
  ...(redis !== undefined && { redis: redisOf(redis as Group) }),
  file,
})

function redisOf({ kind, ...servers }: Group): Group {
  if (kind === 'sentinels') return servers
  const { address = {}, nodes, db, ...access } = servers
  if (kind === 'cluster') return { cluster: nodes, ...access }
  return { url: `redis://${addressIn(address as Group)}/${db as number}`, ...access }
}
