/** What each stage examined and found, in words and numbers; the verdict and all numbers are the stage's own. */
import { clock, count, usage } from '../format.js'
import type { ExplainedStage, StageName } from '../api/explain.ts'
import type { Config } from '../../config/config.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import { endsAtSeconds } from '../../core/rules/ban-policy.ts'
import { refusalKinds, type Refusal } from '../../core/rules/refusals.ts'
import type { AskedPlace } from '../../config/clients/setting-locations.ts'
import type { CallerKnown, Known, Question } from './question.ts'
import { banInWords, dateOf, isoOf, placeOf, takenBy } from './words.ts'
import type { Walked } from './walk.ts'

/** Everything that an explanation is made from. */
export interface Material {
  readonly config: Config
  readonly question: Question
  readonly known: Known
  readonly walked: Walked
  readonly caller: Caller | undefined
  readonly callerKnown: CallerKnown
}

export interface Finding extends Pick<ExplainedStage, 'rule' | 'numbers'> {
  /** The setting that decided; null: a default, or no setting has a say. */
  readonly config: AskedPlace | null
}

/** refusal: the stage's own; undefined: it let the request pass. */
export function findingOf(
  stage: StageName,
  material: Material,
  refusal: Refusal | undefined,
): Finding {
  return { config: null, numbers: {}, ...finders[stage](material, refusal) }
}

type Found = Pick<Finding, 'rule'> & Partial<Finding>
type Finder = (material: Material, refusal: Refusal | undefined) => Found

export const setting = (...path: readonly (string | number)[]): AskedPlace => ({ path })

/** Whether the limits are the client's own, and not its plan's. */
export function hasOwnLimits({ plans }: Config, { plan }: Caller): boolean {
  return plans.get(plan)?.limits === undefined
}

/** Name of the setting in server.limits that caused the refusal; undefined: none did. */
export function limitOf({ code, cause = '' }: Refusal) {
  if (code === 'body_too_large') return 'bodyBytes'
  if (code === 'uri_too_long') return 'urlBytes'
  if (code !== 'headers_too_large') return undefined
  return cause.includes('bytes') ? 'headerBytes' : 'headerCount'
}

const causeOf = (refusal: Refusal): string => refusal.cause ?? refusalKinds[refusal.code].message

const accept: Finder = ({ config, question }, refusal) => {
  const own = question.target === '*' ? ': asks what the gateway can do' : ''
  if (refusal === undefined)
    return { rule: `framing, sizes within limits${own}`, config: setting('server', 'limits') }
  const limit = limitOf(refusal)
  if (limit === undefined) return { rule: causeOf(refusal) }
  return {
    rule: `${causeOf(refusal)}: above ${limit}`,
    config: setting('server', 'limits', limit),
    numbers: { limit: config.server.limits[limit] },
  }
}

const matchRoute: Finder = ({ config, walked }, refusal) => {
  const { route, status } = walked.exchange
  if (refusal?.code === 'method_not_allowed')
    return { rule: `this path takes ${refusal.allow}`, numbers: { allow: refusal.allow ?? null } }
  if (refusal !== undefined && route === undefined) {
    const { basePath } = config.server
    return { rule: `outside of ${basePath}`, config: setting('server', 'basePath') }
  }
  if (route?.template === undefined)
    return {
      rule: refusal === undefined ? 'no route: forwarded all the same' : 'no route has this path',
      config: setting('unmatched'),
    }
  const at = config.routes.findIndex(({ name }) => name === route.name)
  const marks = [route.deprecated && 'deprecated', route.websocket && 'WebSocket']
  const named = [`${config.routes[at]?.method} ${route.template}`, ...marks]
  return {
    rule: `${named.filter(Boolean).join(', ')}${status === 204 ? '; answers a preflight' : ''}`,
    config: setting('routes', at, 'match'),
  }
}

const authenticate: Finder = ({ config, walked, caller, question }, refusal) => {
  const { atMs } = question
  const known = caller ?? walked.exchange.refusedCaller
  const location = known === undefined ? null : { clientId: known.clientId, keyId: known.keyId }
  const ends = known === undefined || known.expiresAtMs === Infinity ? null : known.expiresAtMs
  if (refusal === undefined && known !== undefined) {
    const what = known.keyDigest === undefined ? 'token' : 'key'
    const until = ends === null ? 'without end' : `until ${dateOf(ends, atMs)}`
    const numbers = { expiresAt: ends === null ? null : isoOf(ends) }
    return { rule: `${what} ${until}, plan ${known.plan}`, config: location, numbers }
  }
  if (refusal?.code === 'rate_limit_exceeded') {
    const { perMinute } = config.anonymous
    return {
      rule: `${perMinute} a minute without a valid key are used up (${refusal.cause})`,
      config: setting('anonymous', 'perMinute'),
      numbers: { limit: perMinute, retryAfterSeconds: refusal.retryAfterSeconds ?? null },
    }
  }
  if (refusal?.code === 'missing_api_key')
    return { rule: refusal.cause ?? 'no Authorization field' }
  if (refusal?.code === 'overloaded')
    return { rule: causeOf(refusal), config: setting('server', 'overload', 'lag') }
  if (known !== undefined && ends !== null)
    return {
      rule: `key ended ${dateOf(ends, atMs)}`,
      config: location,
      numbers: { expiresAt: isoOf(ends) },
    }
  return { rule: refusal?.cause ?? 'no such key' }
}

const checkBan: Finder = ({ config, callerKnown, question: { atMs } }, refusal) => {
  const { ban, standings } = callerKnown
  const most = standings?.toSorted((one, other) => other.strikes - one.strikes)[0]
  const limit = config.bans.strikes
  const counted = { strikes: most?.strikes ?? null, strikesLimit: limit }
  if (refusal === undefined || ban === undefined) {
    const so = most && `, ${most.strikes} of ${limit} strikes ${placeOf(most)}`
    return { rule: `no ban${so ?? ''}`, config: setting('bans', 'strikes'), numbers: counted }
  }
  return {
    rule: banInWords(ban, atMs),
    config: ban.by === 'operator' ? null : setting('bans', 'duration'),
    numbers: {
      ...counted,
      sinceAt: isoOf(ban.startedMs),
      untilAt: isoOf(1000 * endsAtSeconds(ban)),
      bans: ban.count,
      retryAfterSeconds: refusal.retryAfterSeconds ?? null,
    },
  }
}

const shedLoad: Finder = (_, refusal) => ({
  rule: refusal === undefined ? 'nothing is shed' : causeOf(refusal),
  config: setting('server', 'overload', 'lag'),
})

const checkDeprecation: Finder = ({ config, walked, question: { atMs } }, refusal) => {
  const { route } = walked.exchange
  const at = config.routes.findIndex(({ name }) => name === route?.name)
  const deprecated = config.routes[at]?.deprecated
  if (deprecated === undefined) return { rule: 'not deprecated' }
  const { sunsetMs } = deprecated
  const sunset = sunsetMs === undefined ? '' : `, sunset ${dateOf(sunsetMs, atMs)}`
  const location = (key: string) => setting('routes', at, 'deprecated', key)
  const numbers = {
    sunsetAt: sunsetMs === undefined ? null : isoOf(sunsetMs),
    retryAfterSeconds: refusal?.retryAfterSeconds ?? null,
  }
  if (refusal === undefined)
    return { rule: `deprecated${sunset}`, config: location('since'), numbers }
  const { retryAfterSeconds: waitSeconds } = refusal
  if (waitSeconds === undefined)
    return { rule: `gone${sunset}`, config: location('afterSunset'), numbers }
  const backMs = Math.floor(atMs) + waitSeconds * 1000
  return {
    rule: `in a brownout for this client until ${clock(backMs, atMs)}`,
    config: location('brownouts'),
    numbers,
  }
}

const takeQuota: Finder = ({ config, caller, walked }, refusal) => {
  const { quota } = walked.exchange
  if (caller === undefined || quota === undefined) return { rule: '' }
  const window = refusal?.window
  const key = window === undefined ? [] : [window === 'day' ? 'perDay' : 'perMinute']
  const location = hasOwnLimits(config, caller)
    ? { clientId: caller.clientId }
    : setting('plans', caller.plan, ...key)
  const uses = (['minute', 'day'] as const).map((name) => {
    const { limit, remaining } = quota[name]
    // The refusing window counts as fully used, whatever other processes hold.
    return { name, use: { used: name === window ? limit : limit - remaining, limit } }
  })
  const first = window === 'day' ? uses.toReversed() : uses
  const numbers = Object.fromEntries(
    uses.flatMap(({ name, use }) => [
      [`${name}Used`, use.used],
      [`${name}Limit`, use.limit],
      [`${name}ResetAt`, isoOf(quota[name].resetAtSeconds * 1000)],
    ]),
  )
  return {
    rule: first.map(({ name, use }) => `${name} ${usage(use)}`).join(', '),
    config: location,
    numbers: { ...numbers, retryAfterSeconds: refusal?.retryAfterSeconds ?? null },
  }
}

const takeTurn: Finder = ({ caller, callerKnown, known: { isOver } }, refusal) => {
  const { rule, numbers } = takenBy(callerKnown.standings, refusal !== undefined)
  return {
    rule: `at most ${count(caller?.concurrent)} at once, per worker${isOver ? '' : rule}`,
    config: caller === undefined ? null : setting('plans', caller.plan, 'concurrent'),
    numbers: { limit: caller?.concurrent ?? null, ...numbers },
  }
}

const receiveBody: Finder = ({ config, walked }) => {
  const { hasBody, bodyBytes } = walked.exchange
  if (!hasBody) return { rule: 'no body' }
  const size = bodyBytes === undefined ? 'in chunks' : `of ${count(bodyBytes)} bytes`
  return {
    rule: `a body ${size}`,
    config: setting('server', 'limits', 'bufferedBody'),
    numbers: {
      bodyBytes: bodyBytes ?? null,
      bufferedBytes: config.server.limits.bufferedBodyBytes,
    },
  }
}

const forward: Finder = ({ config, known }, refusal) => {
  if (refusal !== undefined) return { rule: causeOf(refusal) }
  const { urls, balance } = config.upstream
  const choice = balance === 'least-requests' ? 'least requests' : 'round robin'
  const { backends } = known
  if (backends === undefined)
    return { rule: `${choice} of ${urls.length}`, config: setting('upstream', 'urls') }
  const away = backends.filter(({ state }) => state === 'ejected' || state === 'down')
  const up = backends.length - away.length
  const why = away.map(({ name, state, cause }) => `; ${name} ${state}${cause ? `: ${cause}` : ''}`)
  return {
    rule: `${choice} of ${up > 0 ? `${up} up` : `${backends.length}, none up`}${why.join('')}`,
    config: setting('upstream', 'urls'),
    numbers: { backends: backends.length, up },
  }
}

export const finders: Readonly<Record<StageName, Finder>> = {
  accept,
  'match-route': matchRoute,
  authenticate,
  'check-ban': checkBan,
  'shed-load': shedLoad,
  'check-deprecation': checkDeprecation,
  'take-quota': takeQuota,
  'take-turn': takeTurn,
  'receive-body': receiveBody,
  forward,
}
