/** Warnings about a valid configuration that most likely means something else; they never refuse it. */
import { isEverywhere, isLoopback } from '../hosts.ts'
import type { Config, ListenAddress } from '../config.ts'
import { problemsOf, type PathProblem, type Refuse } from '../problems.ts'

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

export const keyIsOver =
  'is over, so this key is refused; remove it, or make one with `tollgate keys new`'

const warnOfClients = ({ clients, jwt }: Config, warn: Refuse): void => {
  if (clients.size > 0 || jwt !== undefined) return
  const message = 'has no clients, so every request gets 401; add one with `tollgate keys new`'
  warn(['clients'], message, 'key')
}

const warnOfEnds = ({ clients }: Config, nowMs: number, warn: Refuse): void => {
  const ending = clients.countEnding(nowMs, nowMs + EXPIRING_MS)
  if (ending === 0) return
  const fault = `has ${ending} key${ending === 1 ? '' : 's'} that end${ending === 1 ? 's' : ''} within 30 days`
  const seen = 'see `tollgate keys list --config FILE --expiring 30d`'
  warn(['clients'], `${fault}; ${seen}, and rotate those that nothing replaces yet`, 'key')
}

/** Whether the route matches, below the base path, only what repeats it. */
export const repeatsBasePath = (basePath: string, path: string): boolean =>
  basePath !== '' && `${path}/`.startsWith(`${basePath}/`)

const warnOfAddresses = ({ server, admin, upstream, routes }: Config, warn: Refuse): void => {
  for (const [index, network] of server.trustedProxies.entries())
    if (network.endsWith('/0'))
      warn(
        ['server', 'trustedProxies', index],
        'trusts everybody, so any caller can claim any address; write the networks of your own proxies',
      )
  for (const [index, url] of upstream.urls.entries()) {
    const own = [server, admin].findIndex(({ listen }) => leadsTo(url, listen))
    const name = own === 0 ? 'server.listen' : 'admin.listen'
    if (own !== -1)
      warn(
        ['upstream', 'urls', index],
        `is this gateway itself (${name}); write the address of the backend`,
      )
  }
  const { basePath } = server
  for (const [index, { method, path }] of routes.entries())
    if (repeatsBasePath(basePath, path))
      warn(
        ['routes', index, 'match'],
        `repeats server.basePath, so it matches ${basePath}${path} only; write ${method} ${path.slice(basePath.length) || '/'}`,
      )
}

/** What most likely means something else; time alone brings none of it. */
export const likelyMistakes = (config: Config): PathProblem[] =>
  problemsOf((warn) => {
    warnOfAddresses(config, warn)
    warnOfClients(config, warn)
  })

/** Warnings about all but single clients. */
export const warningsOf = (config: Config, nowMs: number): PathProblem[] => [
  ...likelyMistakes(config),
  ...problemsOf((warn) => warnOfEnds(config, nowMs, warn)),
]
