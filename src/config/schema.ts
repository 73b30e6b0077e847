/** The shape of the file: every key with its type, unit and bounds. Defaults are in defaults.ts, checks across keys in cross-checks.ts. */
import { z } from 'zod'
import {
  absoluteLink,
  basePath,
  host,
  jwksUri,
  listenAddress,
  network,
  origin,
  successorLink,
} from './addresses.ts'
import type { PathProblem } from './problems.ts'
import { readRedis } from './redis.ts'
import { routeMatch } from './route-match.ts'
import {
  choice,
  dateMs,
  decimal,
  duration,
  flag,
  identifier,
  keyIdentifier,
  integer,
  label,
  line,
  optionalFile,
  sha256Digest,
  size,
  storePrefix,
  workers,
} from './scalars.ts'
import type { Reader } from './scalars.ts'
import type { Group, Tree } from './tree.ts'

/** Each request is decided within 250 ms, and may have to wait for two calls and a pause. */
const storeTimeoutAtMostMs = 110

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour
const KiB = 1024
const GiB = 1024 ** 3

const missing = 'is missing; add it'

const faultOr = (fault: string) => ({
  error: (issue: { readonly input?: unknown }) => (issue.input === undefined ? missing : fault),
})

/** One value, read by a reader of scalars.ts or addresses.ts. */
const leaf = <T>(read: Reader<T>) =>
  z
    .string(faultOr('is a list or a group of keys; write a single value'))
    .transform((text, context): T => {
      const reading = read(text)
      if ('value' in reading) return reading.value
      context.addIssue(reading.fault)
      return z.NEVER
    })

/** A group of known keys; any other key is a problem that lists the known ones. */
const group = <Shape extends z.core.$ZodLooseShape>(shape: Shape) => {
  const keys = Object.keys(shape).join(', ')
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `is not a known key; the keys here are ${keys}`
        : faultOr(`is not a group of keys; write KEY: VALUE lines, the keys are ${keys}`).error(
            issue,
          ),
  })
}

const list = <Item extends z.ZodType>(item: Item) =>
  z.array(item, faultOr('is not a list; write [A, B], or lines that start with "- "'))

/** At least one item. */
const filledList = <Item extends z.ZodType>(item: Item) =>
  list(item).min(1, { error: 'is empty; write at least one' })

const perMinute = leaf(integer({ min: 1, max: 1_000_000_000 }))
const perDay = leaf(integer({ min: 1, max: 1_000_000_000_000 }))
const cardinality = 'has no keys; define at least one plan'

const redis = z.unknown().transform((value, context) => {
  const reading = readRedis(value as Tree)
  if ('value' in reading) return reading.value
  for (const { path, at, message } of reading.problems)
    context.addIssue({ code: 'custom', path: [...path], message, params: { at } })
  return z.NEVER
})

const server = group({
  listen: leaf(listenAddress),
  basePath: leaf(basePath),
  workers: leaf(workers),
  trustedProxies: list(leaf(network)),
  limits: group({
    headerBytes: leaf(size({ min: KiB, max: 1024 * KiB })),
    headerCount: leaf(integer({ min: 10, max: 2000 })),
    bodyBytes: leaf(size({ min: 1, max: 16 * GiB })),
    urlBytes: leaf(size({ min: 64, max: 64 * KiB })),
  }),
  timeouts: group({
    headers: leaf(duration({ min: 10, max: hour })),
    request: leaf(duration({ min: 10, max: day })),
    idle: leaf(duration({ min: 10, max: day })),
    drain: leaf(duration({ min: 0, max: hour })),
  }),
})

const upstream = group({
  urls: filledList(leaf(origin)),
  timeouts: group({
    connect: leaf(duration({ min: 1, max: minute })),
    response: leaf(duration({ min: 1, max: day })),
    idle: leaf(duration({ min: 1, max: day })),
  }),
  connections: leaf(integer({ min: 1, max: 65_535 })),
  engine: leaf(choice(['direct', 'undici', 'http-proxy-3'])),
})

const store = group({
  redis,
  prefix: leaf(storePrefix),
  timeout: leaf(duration({ min: 1, max: storeTimeoutAtMostMs })),
  onOutage: leaf(choice(['local', 'open', 'closed'])),
  lease: leaf(choice(['auto', 'off'])),
  file: leaf(optionalFile),
})

const plan = group({
  perMinute: perMinute.optional(),
  perDay: perDay.optional(),
  custom: leaf(flag).optional(),
})

const client = group({
  id: leaf(identifier(128)),
  plan: leaf(label),
  limits: group({ perMinute, perDay }).optional(),
  keys: list(
    group({
      id: leaf(keyIdentifier),
      sha256: leaf(sha256Digest),
      expires: leaf(dateMs).optional(),
    }),
  ),
})

/** Asymmetric only: with HS* whoever can check a token could make one, and `none` checks nothing. */
const algorithms = 'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA'.split(' ')

const jwt = group({
  issuer: leaf(line),
  audience: leaf(line),
  jwksUri: leaf(jwksUri).optional(),
  jwksFile: leaf(line).optional(),
  algorithms: filledList(leaf(choice(algorithms))),
  clientClaim: leaf(line),
  planClaim: leaf(line),
})

const bans = group({
  strikes: leaf(integer({ min: 1, max: 1_000_000 })),
  within: leaf(duration({ min: second, max: day })),
  grace: leaf(duration({ min: 0, max: minute })),
  duration: leaf(duration({ min: second, max: 30 * day })),
  growth: leaf(decimal({ min: 1, max: 100 })),
  maxDuration: leaf(duration({ min: second, max: 30 * day })),
  forgetAfter: leaf(duration({ min: second, max: 30 * day })),
})

const route = group({
  name: leaf(label),
  match: leaf(routeMatch),
  deprecated: group({
    since: leaf(dateMs),
    sunset: leaf(dateMs).optional(),
    successor: leaf(successorLink).optional(),
    link: leaf(absoluteLink).optional(),
  }).optional(),
  stability: leaf(choice(['experimental', 'beta', 'stable'])).optional(),
  websocket: leaf(flag),
  timeouts: group({ response: leaf(duration({ min: 1, max: day })) }).optional(),
})

export const configSchema = group({
  server,
  admin: group({ listen: leaf(listenAddress), hosts: list(leaf(host)) }),
  upstream,
  store,
  plans: z
    .record(
      leaf(label),
      plan,
      faultOr('is not a group of plans; write NAME: { perMinute, perDay } lines'),
    )
    .refine((plans) => Object.keys(plans).length > 0, { error: cardinality }),
  clients: list(client),
  anonymous: group({ perMinute }),
  jwt: jwt.optional(),
  bans,
  routes: list(route),
  unmatched: leaf(choice(['forward', 'reject'])),
  log: group({
    level: leaf(choice(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'])),
    format: leaf(choice(['auto', 'json', 'text'])),
    access: leaf(flag),
  }),
})

/** The file as read, in its own words: units are already ms and bytes, names are still those of the file. */
export type ConfigFile = z.output<typeof configSchema>

const toProblems = (issue: z.core.$ZodIssue): PathProblem[] => {
  const path = issue.path.map((step) => (typeof step === 'number' ? step : String(step)))
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({ path: [...path, key], at: 'key', message: issue.message }))
  }
  if (issue.code === 'invalid_key') {
    return issue.issues.map(({ message }) => ({ path, at: 'key', message }))
  }
  const isAtKey = issue.code === 'custom' && issue.params?.['at'] === 'key'
  return [{ path, at: isAtKey ? 'key' : 'value', message: issue.message }]
}

/** Reads a tree that has its defaults: the whole file, or every problem of its shape and values. */
export const readSchema = (
  tree: Group,
): { readonly file: ConfigFile } | { readonly problems: readonly PathProblem[] } => {
  const result = configSchema.safeParse(tree)
  return result.success
    ? { file: result.data }
    : { problems: result.error.issues.flatMap(toProblems) }
}
