/** What each stage examined and found, in words and numbers, and what would change its refusal; the verdict and all numbers are the stage's own. */
import { clock, count, duration, usage } from '../format.js'
import type { ExplainedStage } from '../api/explain.ts'
import type { Config } from '../../config/config.ts'
import { DAY_MS, windowNames, windows, type WindowName } from '../../config/time.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import { endsAtSeconds } from '../../core/rules/ban-policy.ts'
import { refusalKinds, type Refusal, type RefusalCode } from '../../core/rules/refusals.ts'
import type { AskedPlace } from '../../config/locations.ts'
import { LONGEST_WAIT_MS } from '../../core/pipeline/take-turn.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { CallerKnown, CallerStanding, Known, Question } from './question.ts'
import type { Walked } from './walk.ts'

/** Everything that an explanation is made from. */
export interface Material extends Walked {
  readonly config: Config
  readonly question: Question
  readonly known: Known
  readonly callerKnown: CallerKnown
}

interface Found extends Pick<ExplainedStage, 'rule'>, Partial<Pick<ExplainedStage, 'numbers'>> {
  /** The setting that decided; null or left out: no setting has a say. */
  readonly config?: AskedPlace | null
  /** Changes that would lead to another answer, if the stage has refused; each suffices alone. */
  readonly change?: readonly string[] | undefined
}
/** refusal: the stage's own; undefined: it let the request pass. */
type Finder = (material: Material, refusal: Refusal | undefined) => Found

export const isoOf = (ms: number): string => new Date(ms).toISOString()

/** The date alone for midnight UTC, otherwise as clock writes it. */
const dateOf = (ms: number, nowMs: number): string =>
  ms % DAY_MS === 0 ? isoOf(ms).slice(0, 10) : clock(ms, nowMs)

const endings = ['th', 'st', 'nd', 'rd']
/** 1st, 2,012th */
export function ordinal(number: number): string {
  const isTeen = number % 100 > 10 && number % 100 < 14
  return `${count(number)}${(!isTeen && endings[number % 10]) || 'th'}`
}

/** times: number of the ban, as in "5th ban"; 0: not known. */
const banOf = (times: number): string => (times === 0 ? 'ban for strikes' : `${ordinal(times)} ban`)

export function banInWords(ban: BanRecord, atMs: number) {
  const { untilMs, startedMs, by, count: times, reason } = ban
  const whose = by === 'operator' ? 'by an operator' : banOf(times)
  const why = reason === undefined ? '' : `; ${reason}`
  return `until ${clock(1000 * endsAtSeconds(ban), atMs)}, ${whose}, ${duration(untilMs - startedMs)}${why}`
}

export const setting = (...path: readonly (string | number)[]): AskedPlace => ({ path })

/** Changes of a malformed request. */
function wellFormed({ code, cause }: Refusal): readonly string[] {
  if (code === 'length_required') return ['send Content-Length, or the body in chunks']
  if (code === 'method_not_implemented')
    return ['send GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS']
  return [`send it without this: ${cause}`]
}

const causeOf = (refusal: Refusal): string => refusal.cause ?? refusalKinds[refusal.code].message

const accept: Finder = ({ config, question }, refusal) => {
  const own = question.target === '*' ? ': asks what the gateway can do' : ''
  if (refusal === undefined)
    return { rule: `framing, sizes within limits${own}`, config: setting('server', 'limits') }
  const limit = limitOf(refusal)
  if (limit === undefined) return { rule: causeOf(refusal), change: wellFormed(refusal) }
  return {
    rule: `${causeOf(refusal)}: above ${limit}`,
    config: setting('server', 'limits', limit),
    numbers: { limit: config.server.limits[limit] },
    change: sizeChange(config, question, refusal, limit),
  }
}

const matchRoute: Finder = ({ config, exchange }, refusal) => {
  const { route, status, request, path = '' } = exchange
  const { basePath } = config.server
  const match = `${request.method} ${path.slice(basePath.length) || '/'}`
  const change = [`a route with match: ${match}`, 'unmatched: forward']
  if (refusal?.allow !== undefined) {
    const { allow } = refusal
    const methods = `send one of ${allow}`
    return { rule: `this path takes ${allow}`, numbers: { allow }, change: [methods, ...change] }
  }
  if (refusal !== undefined && route === undefined)
    return {
      rule: `outside of ${basePath}`,
      config: setting('server', 'basePath'),
      change: [`a path below ${basePath}`],
    }
  if (route?.template === undefined)
    return {
      rule: refusal === undefined ? 'no route: forwarded all the same' : 'no route has this path',
      config: setting('unmatched'),
      change,
    }
  const at = config.routes.findIndex(({ name }) => name === route.name)
  const marks = [route.deprecated && 'deprecated', route.websocket && 'WebSocket']
  const named = [`${config.routes[at]?.method} ${route.template}`, ...marks]
  return {
    rule: `${named.filter(Boolean).join(', ')}${status === 204 ? '; answers a preflight' : ''}`,
    config: setting('routes', at, 'match'),
  }
}

const authenticate: Finder = (
  { config, exchange, known: { anonymousUsed = 0 }, question: { atMs } },
  refusal,
) => {
  const known = exchange.caller ?? exchange.refusedCaller
  // A client that comes with tokens is written nowhere.
  const location = known?.keyDigest === undefined ? null : { clientId: known.clientId }
  const ends = known === undefined || known.expiresAtMs === Infinity ? null : known.expiresAtMs
  const numbers = { expiresAt: ends === null ? null : isoOf(ends) }
  if (refusal === undefined && known !== undefined) {
    const what = known.keyDigest === undefined ? 'token' : 'key'
    const until = ends === null ? 'without end' : `until ${dateOf(ends, atMs)}`
    return { rule: `${what} ${until}, plan ${known.plan}`, config: location, numbers }
  }
  if (refusal?.code === 'rate_limit_exceeded') {
    const { perMinute } = config.anonymous
    return {
      rule: `${perMinute} a minute without a valid key are used up (${refusal.cause})`,
      config: setting('anonymous', 'perMinute'),
      numbers: { limit: perMinute, retryAfterSeconds: refusal.retryAfterSeconds ?? null },
      change: [
        'send Authorization: Bearer KEY with a valid key, which is not counted here',
        `anonymous.perMinute above ${Math.max(perMinute, anonymousUsed)}`,
      ],
    }
  }
  if (refusal?.code === 'missing_api_key') {
    const isBare = refusal.detail !== undefined
    const send = isBare ? 'put Bearer before the key' : 'send Authorization: Bearer KEY'
    return { rule: refusal.cause ?? 'no Authorization field', change: [send] }
  }
  if (refusal?.code === 'overloaded')
    return { rule: causeOf(refusal), config: setting('server', 'overload', 'lag') }
  const change = refusal?.code === 'invalid_api_key' ? keyChange(config, known, refusal) : []
  if (ends === null) return { rule: refusal?.cause ?? 'no such key', change }
  return { rule: `key ended ${dateOf(ends, atMs)}`, config: location, numbers, change }
}

function keyChange({ clients }: Config, known: Caller | undefined, { cause }: Refusal): string[] {
  if (known !== undefined)
    return [
      `a later expires of key ${known.keyId}, or none`,
      `another key: tollgate keys new --client ${known.clientId}`,
    ]
  if (cause === 'several Authorization headers') return ['send one Authorization field']
  return [`send Authorization: Bearer KEY with one of the ${count(clients.keyCount)} keys`]
}

const placeOf = ({ worker }: CallerStanding): string =>
  worker === undefined ? 'here' : `in worker ${worker}`

const checkBan: Finder = ({ config, exchange, callerKnown, question: { atMs } }, refusal) => {
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
    change: exchange.caller && banChange(exchange.caller, callerKnown),
  }
}

const shedLoad: Finder = (_, refusal) => ({
  rule: refusal === undefined ? 'nothing is shed' : causeOf(refusal),
  config: setting('server', 'overload', 'lag'),
})

const checkDeprecation: Finder = ({ config, exchange, question: { atMs } }, refusal) => {
  const { route } = exchange
  const at = config.routes.findIndex(({ name }) => name === route?.name)
  const deprecated = config.routes[at]?.deprecated
  if (deprecated === undefined) return { rule: 'not deprecated' }
  const { sunsetMs, successor } = deprecated
  const sunset = sunsetMs === undefined ? '' : `, sunset ${dateOf(sunsetMs, atMs)}`
  const location = (key: string) => setting('routes', at, 'deprecated', key)
  const numbers = {
    sunsetAt: sunsetMs === undefined ? null : isoOf(sunsetMs),
    retryAfterSeconds: refusal?.retryAfterSeconds ?? null,
  }
  if (refusal === undefined)
    return { rule: `deprecated${sunset}`, config: location('since'), numbers }
  const { retryAfterSeconds: waitSeconds } = refusal
  const name = `routes.${route?.name}.deprecated`
  const replaced = successor === undefined ? [] : [`send it to ${successor}`]
  if (waitSeconds === undefined)
    return {
      rule: `gone${sunset}`,
      config: location('afterSunset'),
      numbers,
      change: [...replaced, `${name}.afterSunset: announce`],
    }
  const backMs = Math.floor(atMs) + waitSeconds * 1000
  return {
    rule: `in a brownout for this client until ${clock(backMs, atMs)}`,
    config: location('brownouts'),
    numbers,
    change: [...replaced, `${name} without this brownout`],
  }
}

const takeQuota: Finder = ({ config, callerKnown, exchange: { caller, quota } }, refusal) => {
  if (caller === undefined || quota === undefined) return { rule: '' }
  const window = refusal?.window
  const key = windows.flatMap(({ name, limit }) => (name === window ? limit : []))
  const { clientId, plan } = caller
  // The limits are the client's own if its plan has none.
  const isOwn = config.plans.get(plan)?.limits === undefined
  const location = isOwn ? { clientId } : setting('plans', plan, ...key)
  const owner = isOwn ? `limits of client ${clientId}: ` : `plans.${plan}.`
  const uses = windowNames.map((name) => {
    const { limit, remaining } = quota[name]
    // The refusing window counts as fully used, whatever other processes hold.
    return { name, use: { used: name === window ? limit : limit - remaining, limit } }
  })
  const first = uses.toSorted((one, other) => +(other.name === window) - +(one.name === window))
  const numbers = Object.fromEntries(
    uses.flatMap(({ name, use }) => [
      [`${name}Used`, use.used],
      [`${name}Limit`, use.limit],
      [`${name}ResetAt`, isoOf(quota[name].resetAtSeconds * 1000)],
    ]),
  )
  return {
    rule: first.map(({ name, use }) => `${name} ${usage(use, name)}`).join(', '),
    config: location,
    numbers: { ...numbers, retryAfterSeconds: refusal?.retryAfterSeconds ?? null },
    change: window && quotaChange(caller, callerKnown, window, owner),
  }
}

/** isFull: no process has a turn left. */
function takenBy(standings: readonly CallerStanding[] | undefined, isFull: boolean) {
  if (standings === undefined)
    return { rule: '; how many are under way is not known', numbers: { taken: null } }
  const each = standings.map((one) => `${count(one.taken)} ${placeOf(one)}`)
  const wait = isFull ? `, and none ends within ${LONGEST_WAIT_MS} ms` : ''
  const numbers = standings.map(({ worker, taken }) => [
    worker === undefined ? 'taken' : `takenOfWorker${worker}`,
    taken,
  ])
  return { rule: `; ${each.join(', ')}${wait}`, numbers: Object.fromEntries(numbers) }
}

const takeTurn: Finder = ({ exchange: { caller }, callerKnown, known: { isOver } }, refusal) => {
  const { rule, numbers } = takenBy(callerKnown.standings, refusal !== undefined)
  return {
    rule: `at most ${count(caller?.concurrent)} at once, per worker${isOver ? '' : rule}`,
    config: caller === undefined ? null : setting('plans', caller.plan, 'concurrent'),
    numbers: { limit: caller?.concurrent ?? null, ...numbers },
    change: [
      `send at most ${caller?.concurrent} at once`,
      `plans.${caller?.plan}.concurrent above ${caller?.concurrent}`,
    ],
  }
}

const receiveBody: Finder = ({ config, exchange: { hasBody, bodyBytes } }) => {
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
  if (refusal !== undefined) return { rule: causeOf(refusal), change: wellFormed(refusal) }
  const { urls, balance } = config.upstream
  const choice = balance === 'least-requests' ? 'least requests' : 'round robin'
  const { backends } = known
  if (backends === undefined)
    return { rule: `${choice} of ${urls.length}`, config: setting('upstream', 'urls') }
  const away = backends.filter(({ state }) => state !== 'up')
  const up = backends.length - away.length
  const why = away.map(({ name, state, fault }) => `; ${name} ${state}${fault ? `: ${fault}` : ''}`)
  return {
    rule: `${choice} of ${up > 0 ? `${up} up` : `${backends.length}, none up`}${why.join('')}`,
    config: setting('upstream', 'urls'),
    numbers: { backends: backends.length, up },
  }
}

/** Stages in the order in which a request meets them, by their names in ARCHITECTURE.md. */
export const finders = {
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

/** Refusals by stage; all others belong to `accept`. */
export const refusalsOf: Partial<Record<keyof typeof finders, readonly RefusalCode[]>> = {
  'match-route': ['not_found', 'method_not_allowed'],
  authenticate: ['missing_api_key', 'invalid_api_key'],
  'check-ban': ['api_key_banned'],
  'shed-load': ['overloaded'],
  'check-deprecation': ['operation_in_brownout', 'operation_removed'],
  'take-quota': ['rate_limit_exceeded'],
  'take-turn': ['concurrency_limit_exceeded'],
  'receive-body': ['request_timeout', 'body_too_large'],
  forward: ['bad_gateway', 'service_unavailable', 'gateway_timeout'],
}

const usedUp = ({ limits }: Caller, { use }: CallerKnown) =>
  windows.filter(({ name, limit }) => use !== undefined && use[name] >= limits[limit])

const resetOf = (clientId: string, wanted: readonly { readonly name: WindowName }[]): string =>
  `tollgate usage reset ${clientId} ${wanted.map(({ name }) => `--${name}`).join(' ')}`

/** owner: names the place of the limits. */
function quotaChange(
  caller: Caller,
  known: CallerKnown,
  window: WindowName,
  owner: string,
): readonly string[] {
  const all = usedUp(caller, known)
  const wanted = all.length > 1 ? all : windows.filter(({ name }) => name === window)
  const above = wanted.map(
    ({ name, limit }) => `${limit} above ${Math.max(caller.limits[limit], known.use?.[name] ?? 0)}`,
  )
  // The longer window comes first.
  return [`${owner}${above.toReversed().join(' and ')}`, resetOf(caller.clientId, wanted)]
}

/** Lifting the ban is not enough while a window is exhausted. */
function banChange(caller: Caller, known: CallerKnown): readonly string[] {
  const lift = `tollgate bans lift ${caller.keyId}`
  const all = usedUp(caller, known)
  return [all.length === 0 ? lift : `${lift} and ${resetOf(caller.clientId, all)}`]
}

const sized = {
  bodyBytes: 'a body',
  urlBytes: 'a target',
  headerBytes: 'header fields',
  headerCount: 'header fields',
}

/** Name of the setting in server.limits that caused the refusal; undefined: none did. */
function limitOf({ code, cause = '' }: Refusal): keyof typeof sized | undefined {
  if (code === 'body_too_large') return 'bodyBytes'
  if (code === 'uri_too_long') return 'urlBytes'
  if (code !== 'headers_too_large') return undefined
  return cause.includes('bytes') ? 'headerBytes' : 'headerCount'
}

function sizeChange(
  { server }: Config,
  { headers }: Question,
  { cause = '' }: Refusal,
  limit: keyof typeof sized,
): readonly string[] {
  const most = server.limits[limit]
  const lengthAt = headers.findIndex((name) => name.toLowerCase() === 'content-length')
  const own = /\d+/.exec(cause)?.[0] ?? headers[lengthAt + 1]
  const unit = limit === 'headerCount' ? 'fields' : 'bytes'
  return [
    `${sized[limit]} of at most ${count(most)} ${unit}`,
    `server.limits.${limit} above ${Math.max(most, (Number(own) || 0) - 1)}`,
  ]
}
