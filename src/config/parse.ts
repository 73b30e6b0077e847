/** Tree in, Config or every problem out: pure, and taken whole or refused whole. */
import type { ClientConfig, Config, JwtConfig, PlanConfig, RouteConfig } from './config.ts'
import { crossChecks } from './cross-checks.ts'
import { withDefaults } from './defaults.ts'
import type { PathProblem } from './problems.ts'
import { readSchema } from './schema.ts'
import type { ConfigFile } from './schema.ts'
import type { Group } from './tree.ts'

const toPlans = (file: ConfigFile): Map<string, PlanConfig> =>
  new Map(
    Object.entries(file.plans).map(([name, { perMinute, perDay }]) => [
      name,
      {
        name,
        limits: perMinute === undefined || perDay === undefined ? undefined : { perMinute, perDay },
      },
    ]),
  )

const toClient = (
  client: ConfigFile['clients'][number],
  plans: ReadonlyMap<string, PlanConfig>,
): ClientConfig => {
  const limits = client.limits ?? plans.get(client.plan)?.limits
  if (limits === undefined) throw new Error('a client without limits passed the checks')
  return {
    id: client.id,
    plan: client.plan,
    limits,
    keys: client.keys.map(({ id, sha256, expires }) => ({ id, sha256, expiresAtMs: expires })),
  }
}

const toJwt = (jwt: NonNullable<ConfigFile['jwt']>): JwtConfig => ({
  ...jwt,
  jwksUri: jwt.jwksUri,
  jwksFile: jwt.jwksFile,
})

const toRoute = (route: ConfigFile['routes'][number]): RouteConfig => ({
  name: route.name,
  method: route.match.method,
  path: route.match.path,
  deprecated: route.deprecated && {
    sinceMs: route.deprecated.since,
    sunsetMs: route.deprecated.sunset,
    successor: route.deprecated.successor,
    link: route.deprecated.link,
  },
  stability: route.stability,
  websocket: route.websocket,
  responseTimeoutMs: route.timeouts?.response,
})

const toServer = ({ server }: ConfigFile): Config['server'] => ({
  ...server,
  timeouts: {
    headersMs: server.timeouts.headers,
    requestMs: server.timeouts.request,
    idleMs: server.timeouts.idle,
    drainMs: server.timeouts.drain,
  },
})

const toUpstream = ({ upstream }: ConfigFile): Config['upstream'] => ({
  ...upstream,
  timeouts: {
    connectMs: upstream.timeouts.connect,
    responseMs: upstream.timeouts.response,
    idleMs: upstream.timeouts.idle,
  },
})

const toBans = ({ bans }: ConfigFile): Config['bans'] => ({
  strikes: bans.strikes,
  withinMs: bans.within,
  graceMs: bans.grace,
  durationMs: bans.duration,
  growth: bans.growth,
  maxDurationMs: bans.maxDuration,
  forgetAfterMs: bans.forgetAfter,
})

const toConfig = (file: ConfigFile, revision: string): Config => {
  const plans = toPlans(file)
  const { timeout: timeoutMs, ...store } = file.store
  return {
    server: toServer(file),
    admin: file.admin,
    upstream: toUpstream(file),
    store: { ...store, timeoutMs },
    plans,
    clients: file.clients.map((client) => toClient(client, plans)),
    anonymous: file.anonymous,
    jwt: file.jwt && toJwt(file.jwt),
    bans: toBans(file),
    routes: file.routes.map(toRoute),
    unmatched: file.unmatched,
    log: file.log,
    revision,
    warnings: [],
  }
}

interface Parsed {
  /** The tree with the defaults, of which the problems tell. */
  readonly complete: Group
  /** undefined where there are problems. */
  readonly config: Config | undefined
  readonly problems: readonly PathProblem[]
}

/** The configuration that a tree describes, defaults filled in; or all that is wrong with it. */
export const parseConfig = (tree: Group, revision: string): Parsed => {
  const complete = withDefaults(tree)
  const reading = readSchema(complete)
  const crossProblems = crossChecks(complete)
  if ('file' in reading && crossProblems.length === 0) {
    return { complete, config: toConfig(reading.file, revision), problems: [] }
  }
  const problems = [...('problems' in reading ? reading.problems : []), ...crossProblems]
  return { complete, config: undefined, problems }
}
