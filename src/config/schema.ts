/** The shape of the file: every key with its type, unit, bounds and default; config/gateway.yaml shows the same defaults with their meaning. Blocks with many keys or checks have files of their own. */
import type { z } from 'zod'
import { absoluteLink, collectorUrl, jwksUri, webOrigin } from './addresses.ts'
import { filledList, group, inMs, list } from './groups.ts'
import { checkPlans, client, perMinute, plans } from './plans.ts'
import { problemsOf, type PathProblem, type Refuse } from './problems.ts'
import { checkRoutes, route } from './route.ts'
import {
  choice,
  decimal,
  duration,
  fieldName,
  flag,
  integer,
  line,
  share,
  webhookSecret,
} from './scalars.ts'
import { admin, checkAdmin, checkServer, server } from './server.ts'
import { checkStore, store } from './store.ts'
import { has, isGroup, isLonger, itemsAt, textAt, valueAt, type Group } from './tree.ts'
import { checkUpstream, upstream } from './upstream.ts'

/** Asymmetric algorithms only: with HS* whoever can check a token could make one, and `none` checks nothing. */
const algorithms = 'RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA'.split(' ')

const cors = group({
  origins: filledList(webOrigin),
  /** Request fields that pages may send. */
  headers: list(fieldName).prefault(['authorization', 'content-type']),
  /** How long a browser may reuse the answer to a preflight. */
  maxAge: duration('0ms', '1d').prefault('2h'),
  credentials: flag.prefault('false'),
}).transform(inMs('maxAge'))

const jwt = group({
  issuer: line,
  audience: line,
  /** Exactly one of jwksUri and jwksFile is set. */
  jwksUri: jwksUri.optional(),
  jwksFile: line.optional(),
  algorithms: filledList(choice(algorithms)),
  clientClaim: line.prefault('sub'),
  planClaim: line.prefault('plan'),
})

const bans = group({
  strikes: integer({ min: 1, max: 1_000_000 }).prefault('90'),
  within: duration('1s', '1d').prefault('1m'),
  grace: duration('0ms', '1m').prefault('1s'),
  duration: duration('1s', '30d').prefault('1m'),
  growth: decimal({ min: 1, max: 100 }).prefault('2'),
  maxDuration: duration('1s', '30d').prefault('24h'),
  forgetAfter: duration('1s', '30d').prefault('24h'),
})
  .transform(inMs('within', 'grace', 'duration', 'maxDuration', 'forgetAfter'))
  .prefault({})

const log = group({
  level: choice(['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']).prefault('info'),
  format: choice(['auto', 'json', 'text']).prefault('auto'),
  access: flag.prefault('true'),
}).prefault({})

const events = ['quota', 'ban', 'backend', 'store', 'reload'] as const

const notify = group({
  url: absoluteLink,
  secret: webhookSecret,
  /** Shares of each window, as fractions of 1. */
  at: list(share).prefault(['80%', '100%']),
  events: list(choice(events)).prefault([...events]),
})

const telemetry = group({
  otlp: collectorUrl,
  /** Share of the requests that are traced, without those for which a trusted proxy has decided. */
  sample: share.prefault('1%'),
})

export const configSchema = group({
  server,
  admin,
  upstream,
  store,
  plans,
  clients: list(client).prefault([]),
  clientFiles: list(line).prefault([]),
  anonymous: group({ perMinute: perMinute.prefault('60') }).prefault({}),
  cors: cors.optional(),
  jwt: jwt.optional(),
  bans,
  routes: list(route).prefault([]),
  unmatched: choice(['forward', 'reject']).prefault('forward'),
  log,
  notify: notify.optional(),
  telemetry: telemetry.optional(),
})

/** The file after the schema; parse.ts gives each client its limits. */
export type ConfigFile = z.output<typeof configSchema>

const checkJwt = (tree: Group, refuse: Refuse): void => {
  if (!isGroup(valueAt(tree, 'jwt'))) return
  const [uri, file] = [has(tree, 'jwt', 'jwksUri'), has(tree, 'jwt', 'jwksFile')]
  if (uri && file)
    refuse(['jwt', 'jwksFile'], 'does not go with jwksUri; remove one of the two', 'key')
  if (!uri && !file) refuse(['jwt'], 'has no keys; give jwksUri or jwksFile', 'key')
}

const checkCors = (tree: Group, refuse: Refuse): void => {
  const any = itemsAt(tree, 'cors', 'origins').find((path) => textAt(tree, ...path) === '*')
  if (any !== undefined && textAt(tree, 'cors', 'credentials') === 'true')
    refuse(any, 'does not go with credentials: true; name the origins')
}

const checkBans = (tree: Group, refuse: Refuse): void => {
  const longest = ['bans', 'maxDuration']
  if (isLonger(tree, ['bans', 'duration'], longest))
    refuse(longest, 'is below bans.duration; raise it or lower that')
}

const checks = [
  checkServer,
  checkAdmin,
  checkUpstream,
  checkStore,
  checkPlans,
  checkCors,
  checkJwt,
  checkBans,
  checkRoutes,
]

/**
 * Every fault between values of a tree that has its defaults. The checks read the tree itself, so that a fault elsewhere
 * hides none of theirs.
 */
export const crossChecks = (tree: Group): PathProblem[] =>
  checks.flatMap((check) => problemsOf((refuse) => check(tree, refuse)))
