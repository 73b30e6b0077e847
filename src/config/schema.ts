/** The shape of the file: every key with its type, unit and bounds. Defaults are in defaults.ts, checks across keys in cross-checks.ts. */
import { z } from 'zod'
import {
  absoluteLink,
  collectorUrl,
  host,
  jwksUri,
  listenAddress,
  successorLink,
  webOrigin,
} from './addresses.ts'
import { client, perDay, perMinute } from './client.ts'
import { filledList, group, inMs, list } from './groups.ts'
import { suggest } from './nearest.ts'
import { problem, PROBLEMS_AT_MOST, type Path, type PathProblem } from './problems.ts'
import { redis, redisForm } from './redis.ts'
import { routeMatch } from './route-match.ts'
import {
  choice,
  dateMs,
  decimal,
  duration,
  faultOr,
  fieldName,
  flag,
  integer,
  label,
  line,
  optionalFile,
  share,
  storePrefix,
  tokenDigest,
  webhookSecret,
} from './scalars.ts'
import { server } from './server.ts'
import { listAt, valueAt } from './tree.ts'
import type { Group } from './tree.ts'
import { upstream } from './upstream.ts'

/** A request is decided within 250 ms, and may have to wait for two calls and a pause. */
const storeTimeoutAtMostMs = 110

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour

const cardinality = 'has no keys; define at least one plan'
/** Each plan is a label of metrics. */
const PLANS_AT_MOST = 1_000
const tooManyPlans = `has more than ${PLANS_AT_MOST} plans; clients with limits of their own share one with custom: true`

const store = group({
  redis,
  prefix: storePrefix,
  timeout: duration({ min: 1, max: storeTimeoutAtMostMs }),
  onOutage: choice(['local', 'open', 'closed']),
  /** auto: processes hold tokens ahead of need. off: one call to the store per request. */
  lease: choice(['auto', 'off']),
  /** SQLite file in which the embedded store keeps counts and bans; undefined: memory only. Not used with Redis. */
  file: optionalFile,
}).transform(inMs('timeout'))

const plan = group({
  perMinute: perMinute.optional(),
  perDay: perDay.optional(),
  custom: flag.optional(),
  concurrent: integer({ min: 1, max: 1_000_000 }).optional(),
  /** Limits that are only tried, on each client of the plan, of a custom one too. */
  shadow: group({ perMinute, perDay }).optional(),
})

/** Asymmetric algorithms only: with HS* whoever can check a token could make one, and `none` checks nothing. */
const algorithms = 'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA'.split(' ')

const cors = group({
  origins: filledList(webOrigin),
  /** Request fields that pages may send. */
  headers: list(fieldName),
  /** How long a browser may reuse the answer to a preflight. */
  maxAge: duration({ min: 0, max: day }),
  credentials: flag,
}).transform(inMs('maxAge'))

const jwt = group({
  issuer: line,
  audience: line,
  /** Exactly one of jwksUri and jwksFile is set. */
  jwksUri: jwksUri.optional(),
  jwksFile: line.optional(),
  algorithms: filledList(choice(algorithms)),
  clientClaim: line,
  planClaim: line,
})

const bans = group({
  strikes: integer({ min: 1, max: 1_000_000 }),
  within: duration({ min: second, max: day }),
  grace: duration({ min: 0, max: minute }),
  duration: duration({ min: second, max: 30 * day }),
  growth: decimal({ min: 1, max: 100 }),
  maxDuration: duration({ min: second, max: 30 * day }),
  forgetAfter: duration({ min: second, max: 30 * day }),
}).transform(inMs('within', 'grace', 'duration', 'maxDuration', 'forgetAfter'))

const someShare = share.refine((part) => part > 0, 'is nobody; write 1% to 100%, or remove it')

const route = group({
  name: label,
  match: routeMatch,
  deprecated: group({
    since: dateMs,
    sunset: dateMs.optional(),
    successor: successorLink.optional(),
    /** Documentation of the deprecation (rel="deprecation"). */
    link: absoluteLink.optional(),
    afterSunset: choice(['announce', 'gone']),
    /** Periods in which the route is refused for a minute at a time to a share of the clients. */
    brownouts: list(
      group({ from: dateMs, to: dateMs, share: someShare }).transform(inMs('from', 'to')),
    ),
  })
    .transform(inMs('since', 'sunset'))
    .optional(),
  stability: choice(['experimental', 'beta', 'stable']).optional(),
  websocket: flag,
  timeouts: group({ response: duration({ min: 1, max: day }) }).optional(),
}).transform(({ match: { method, path }, timeouts, ...given }) => ({
  ...given,
  method,
  path,
  responseTimeoutMs: timeouts?.response,
}))

export const configSchema = group({
  server,
  admin: group({
    listen: listenAddress,
    /** Names and addresses, besides its own, that a request may have in Host. */
    hosts: list(host),
    /** Digest of the required token; undefined: none is required. */
    tokenSha256: tokenDigest.optional(),
    /** HTTPS. A client certificate from clientCa replaces the token. */
    tls: group({ cert: line, key: line, clientCa: line.optional() })
      .transform(({ cert, key, clientCa }) => ({
        certFile: cert,
        keyFile: key,
        clientCaFile: clientCa,
      }))
      .optional(),
    /** Whether /metrics is open to everybody. */
    openMetrics: flag,
    /** Clients that /metrics names; 0: none. */
    topClients: integer({ min: 0, max: 50 }),
  }),
  upstream,
  store,
  plans: z
    .record(
      label,
      plan,
      faultOr('is not a group of plans; write NAME: { perMinute, perDay } lines'),
    )
    .refine((plans) => Object.keys(plans).length > 0, { error: cardinality })
    .refine((plans) => Object.keys(plans).length <= PLANS_AT_MOST, { error: tooManyPlans }),
  clients: list(client),
  clientFiles: list(line),
  anonymous: group({ perMinute }),
  cors: cors.optional(),
  jwt: jwt.optional(),
  bans,
  routes: list(route),
  unmatched: choice(['forward', 'reject']),
  log: group({
    level: choice(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']),
    format: choice(['auto', 'json', 'text']),
    access: flag,
  }),
  notify: group({
    url: absoluteLink,
    secret: webhookSecret,
    /** Shares of each window, as fractions of 1. */
    at: list(share),
    events: list(choice(['quota', 'ban', 'backend', 'store', 'reload'])),
  }).optional(),
  telemetry: group({
    otlp: collectorUrl,
    /** Share of the requests that are traced, without those for which a trusted proxy has decided. */
    sample: share,
  }).optional(),
})

/** The file after the schema; parse.ts gives each client its limits. */
export type ConfigFile = z.output<typeof configSchema>

const unknownKeys = (path: Path, keys: readonly string[], known: string): PathProblem[] =>
  keys.slice(0, PROBLEMS_AT_MOST).map((key) => {
    const remedy = `${suggest(key, known.split(', '))}the keys here are ${known}`
    return problem([...path, key], `is not a known key; ${remedy}`, 'key')
  })

/** One path and sentence for each fault of an issue. */
export const toProblems = (issue: z.core.$ZodIssue, tree: Group): PathProblem[] => {
  const path = issue.path.map((step) => (typeof step === 'number' ? step : String(step)))
  if (issue.code === 'unrecognized_keys') return unknownKeys(path, issue.keys, issue.message)
  if (issue.code === 'invalid_key') {
    return issue.issues.map(({ message }) => problem(path, message, 'key'))
  }
  const form = issue.code === 'invalid_union' ? redisForm(valueAt(tree, ...path)) : undefined
  if (issue.code !== 'invalid_union' || form === undefined) {
    return [problem(path, issue.message)]
  }
  return (issue.errors[form] ?? []).flatMap((inner) =>
    toProblems({ ...inner, path: [...path, ...inner.path] }, tree),
  )
}

/** Reads a tree that has its defaults: the whole file, or every problem of its shape and values. */
export const readSchema = (
  tree: Group,
): { readonly file: ConfigFile | undefined; readonly problems: readonly PathProblem[] } => {
  // There may be very many clients: they are read one by one, until too many are wrong.
  const entries = listAt(tree, 'clients')
  const { data, error } = configSchema.safeParse(
    entries.length === 0 ? tree : { ...tree, clients: [] },
  )
  const problems = error?.issues.flatMap((issue) => toProblems(issue, tree)) ?? []
  const clients: ConfigFile['clients'] = []
  for (const [index, entry] of entries.entries()) {
    if (problems.length >= PROBLEMS_AT_MOST) break
    const read = client.safeParse(entry)
    if (read.data !== undefined) clients.push(read.data)
    for (const issue of read.error?.issues ?? [])
      problems.push(...toProblems({ ...issue, path: ['clients', index, ...issue.path] }, tree))
  }
  return { file: data && problems.length === 0 ? { ...data, clients } : undefined, problems }
}
