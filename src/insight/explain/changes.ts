/** Changes that would lead to another answer; each suffices alone. */
import { clock, count, duration } from '../format.js'
import type { Caller } from '../../core/rules/credentials.ts'
import type { Refusal, RefusalCode } from '../../core/rules/refusals.ts'
import { hasOwnLimits, limitOf, type Material } from './findings.ts'
import type { CallerKnown } from './question.ts'
import { ordinal } from './words.ts'

type Change = (material: Material, refusal: Refusal) => readonly string[]

/** refusal: the answer to the request; undefined: it is not refused. */
export function changesOf(material: Material, refusal: Refusal | undefined): readonly string[] {
  if (refusal === undefined) return untilRefused(material)
  const wait = refusal.retryAfterSeconds
  const changes = byCode[refusal.code]?.(material, refusal) ?? []
  return [...(wait === undefined ? [] : [`wait ${duration(wait * 1000)}`]), ...changes]
}

/** Says which of the requests after this one is refused first. */
function untilRefused({ walked, question: { atMs } }: Material): readonly string[] {
  const { quota, admission } = walked.exchange
  if (quota === undefined || admission === undefined) return []
  const { minute, day } = quota
  const until = (seconds: number): string => clock(seconds * 1000, atMs)
  const nth = (left: number): string => ordinal(left + 1)
  const inMinute = `the ${nth(minute.remaining)} from here before ${until(minute.resetAtSeconds)} is refused (minute)`
  const inDay = `the ${nth(day.remaining)} before ${until(day.resetAtSeconds)} ${minute.remaining < day.remaining ? '' : 'is refused '}(day)`
  return minute.remaining < day.remaining ? [inMinute, inDay] : [inDay]
}

const quota: Change = ({ config, caller, callerKnown, known }, { window }) => {
  if (caller === undefined || window === undefined) {
    return [
      'send Authorization: Bearer KEY with a valid key, which is not counted here',
      `anonymous.perMinute above ${Math.max(config.anonymous.perMinute, known.anonymousUsed ?? 0)}`,
    ]
  }
  const { limits, clientId, plan } = caller
  const used = callerKnown.use ?? { minute: 0, day: 0 }
  const isBoth = usedUpOf(caller, callerKnown) === 'both'
  const owner = hasOwnLimits(config, caller) ? `limits of client ${clientId}: ` : `plans.${plan}.`
  const above = (key: 'perMinute' | 'perDay', name: 'minute' | 'day'): string =>
    `${key} above ${Math.max(limits[key], used[name])}`
  const wanted = isBoth
    ? `${above('perDay', 'day')} and ${above('perMinute', 'minute')}`
    : above(window === 'day' ? 'perDay' : 'perMinute', window)
  return [`${owner}${wanted}`, resetOf(clientId, isBoth ? 'both' : window)]
}

const resetOf = (clientId: string, window: 'minute' | 'day' | 'both'): string =>
  `tollgate usage reset ${clientId} ${window === 'both' ? '--minute --day' : `--${window}`}`

function usedUpOf({ limits }: Caller, { use }: CallerKnown): 'both' | 'minute' | 'day' | undefined {
  if (use === undefined) return undefined
  const isDay = use.day >= limits.perDay
  if (use.minute < limits.perMinute) return isDay ? 'day' : undefined
  return isDay ? 'both' : 'minute'
}

/** Lifting the ban is not enough while a window is exhausted. */
const banned: Change = ({ caller, callerKnown }) => {
  if (caller === undefined) return []
  const lift = `tollgate bans lift ${caller.keyId}`
  const window = usedUpOf(caller, callerKnown)
  return [window === undefined ? lift : `${lift} and ${resetOf(caller.clientId, window)}`]
}

const sized: Change = ({ config, question: { headers } }, refusal) => {
  const limit = limitOf(refusal)
  if (limit === undefined) return []
  const most = config.server.limits[limit]
  const lengthAt = headers.findIndex((name) => name.toLowerCase() === 'content-length')
  const own = /\d+/.exec(refusal.cause ?? '')?.[0] ?? headers[lengthAt + 1]
  const what = {
    bodyBytes: 'a body',
    urlBytes: 'a target',
    headerBytes: 'header fields',
    headerCount: 'header fields',
  }
  const unit = limit === 'headerCount' ? 'fields' : 'bytes'
  return [
    `${what[limit]} of at most ${count(most)} ${unit}`,
    `server.limits.${limit} above ${Math.max(most, (Number(own) || 0) - 1)}`,
  ]
}

const unmatched: Change = ({ config, walked: { exchange } }, { allow }) => {
  const { path = '', route, request } = exchange
  const { basePath } = config.server
  if (route === undefined) return [`a path below ${basePath}`]
  const others = allow === undefined ? [] : [`send one of ${allow}`]
  return [
    ...others,
    `a route with match: ${request.method} ${path.slice(basePath.length) || '/'}`,
    'unmatched: forward',
  ]
}

const removed: Change = ({ config, walked }, { code }) => {
  const route = config.routes.find(({ name }) => name === walked.exchange.route?.name)
  const successor = route?.deprecated?.successor
  return [
    ...(successor === undefined ? [] : [`send it to ${successor}`]),
    code === 'operation_removed'
      ? `routes.${route?.name}.deprecated.afterSunset: announce`
      : `routes.${route?.name}.deprecated without this brownout`,
  ]
}

const invalidKey: Change = ({ walked, config }, { cause }) => {
  const { refusedCaller } = walked.exchange
  if (refusedCaller !== undefined)
    return [
      `a later expires of key ${refusedCaller.keyId}, or none`,
      `another key: tollgate keys new --client ${refusedCaller.clientId}`,
    ]
  if (cause === 'several Authorization headers') return ['send one Authorization field']
  return [`send Authorization: Bearer KEY with one of the ${count(config.clients.keyCount)} keys`]
}

const byCode: Partial<Record<RefusalCode, Change>> = {
  rate_limit_exceeded: quota,
  api_key_banned: banned,
  missing_api_key: (_, { detail }) => [
    detail === undefined ? 'send Authorization: Bearer KEY' : 'put Bearer before the key',
  ],
  invalid_api_key: invalidKey,
  not_found: unmatched,
  method_not_allowed: unmatched,
  operation_removed: removed,
  operation_in_brownout: removed,
  body_too_large: sized,
  uri_too_long: sized,
  headers_too_large: sized,
  length_required: () => ['send Content-Length, or the body in chunks'],
  method_not_implemented: () => ['send GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS'],
  invalid_request: (_, { cause }) => [`send it without this: ${cause}`],
  overloaded: ({ config }) => [`server.overload.lag above ${config.server.overload.lagMs} ms`],
  concurrency_limit_exceeded: ({ caller }) => [
    `send at most ${caller?.concurrent} at once`,
    `plans.${caller?.plan}.concurrent above ${caller?.concurrent}`,
  ],
}
