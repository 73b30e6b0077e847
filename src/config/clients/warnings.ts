/** Warnings about a valid configuration that most likely means something else; they never refuse it. */
import { isLoopback } from '../hosts.ts'
import type { ClientConfig, Config, ListenAddress } from '../config.ts'
import { problem } from '../problems.ts'
import type { PathProblem } from '../problems.ts'

const isEverywhere = (host: string): boolean => host === '0.0.0.0' || host === '::'

/** Keys that end within this time are reported, early enough to be replaced in peace. */
export const EXPIRING_MS = 30 * 24 * 60 * 60 * 1000

/** Whether a connection to the origin would come back to the listener, as far as the texts show. */
const leadsTo = (origin: string, { host, port }: ListenAddress): boolean => {
  const url = new URL(origin)
  const target = url.hostname.replace(/^\[(.*)\]$/, '$1')
  const usualPort = url.protocol === 'https:' ? 443 : 80
  if (Number(url.port || usualPort) !== port) return false
  const isHere = isLoopback(target) || isEverywhere(target)
  return target === host || (isHere && (isEverywhere(host) || isLoopback(host)))
}

const routes = ({ routes, server: { basePath } }: Config): PathProblem[] =>
  routes.flatMap(({ method, path }, index) =>
    basePath === '' || !`${path}/`.startsWith(`${basePath}/`)
      ? []
      : [
          problem(
            ['routes', index, 'match'],
            `repeats server.basePath, so it matches ${basePath}${path} only; write ${method} ${path.slice(basePath.length) || '/'}`,
          ),
        ],
  )

interface Moment {
  readonly nowMs: number
  /** Number of keys that end within EXPIRING_MS from then. */
  readonly ending: number
}

export const keyIsOver =
  'is over, so this key is refused; remove it, or make one with `tollgate keys new`'

const clients = (
  { clients, jwt }: Config,
  own: readonly ClientConfig[],
  { nowMs, ending }: Moment,
): PathProblem[] => {
  if (clients.size === 0 && jwt === undefined) {
    const message = 'has no clients, so every request gets 401; add one with `tollgate keys new`'
    return [problem(['clients'], message, 'key')]
  }
  const problems: PathProblem[] = []
  if (ending > 0) {
    const fault = `has ${ending} key${ending === 1 ? '' : 's'} that end${ending === 1 ? 's' : ''} within 30 days`
    const remedy = 'see `tollgate keys list --expiring 30d`, then `tollgate keys rotate`'
    problems.push(problem(['clients'], `${fault}; ${remedy}`, 'key'))
  }
  for (const [index, { keys }] of own.entries())
    for (const [key, { expiresAtMs = Infinity }] of keys.entries())
      if (expiresAtMs <= nowMs)
        problems.push(problem(['clients', index, 'keys', key, 'expires'], keyIsOver))
  return problems
}

const proxies = ({ server }: Config): PathProblem[] => {
  const message =
    'trusts everybody, so any caller can claim any address; write the networks of your own proxies'
  return server.trustedProxies.flatMap((network, index) =>
    network.endsWith('/0') ? [problem(['server', 'trustedProxies', index], message)] : [],
  )
}

const upstream = ({ upstream, server, admin }: Config): PathProblem[] =>
  upstream.urls.flatMap((url, index) => {
    const own = [server, admin].findIndex(({ listen }) => leadsTo(url, listen))
    if (own === -1) return []
    const name = own === 0 ? 'server.listen' : 'admin.listen'
    const message = `is this gateway itself (${name}); write the address of the backend`
    return [problem(['upstream', 'urls', index], message)]
  })

/** own: clients written in the file itself. */
export const warningsOf = (
  config: Config,
  own: readonly ClientConfig[],
  moment: Moment,
): PathProblem[] => [
  ...proxies(config),
  ...upstream(config),
  ...clients(config, own, moment),
  ...routes(config),
]
