/** Explains a past request: derives from its record what was known then, and adds what the rules do not yield. */
import { count, duration, windowsText } from '../format.js'
import type { ExplainedStage, Explanation, StageName } from '../api/explain.ts'
import type { Decision } from '../../core/record/recent.ts'
import type { Config } from '../../config/config.ts'
import { perWindow, windowNames, type WindowName } from '../../config/time.ts'
import type { BanRecord } from '../../state/bans.ts'
import { refusalKinds } from '../../core/rules/refusals.ts'
import { NOT_REACHED } from './explanation.ts'
import { banInWords } from './findings.ts'
import type { Known, Question } from './question.ts'
import { lastStage, refusingStage, stageNames } from './walk.ts'

/** Fields that recent decisions and lines of the access log share. */
export interface PastRequest extends Omit<Decision, 'id' | 'worker' | 'gatewayMs' | 'revision'> {
  /** Configuration revision that decided the request, or its first characters; undefined: not recorded. */
  readonly revision: string | undefined
}

/** The request, as far as it was recorded. */
export function questionThen({ at, method, path, key, refusal, cause }: PastRequest): Question {
  const isUnknown = key === null && refusal !== null && !NO_CREDENTIAL.test(cause ?? refusal)
  const token = key?.startsWith(OF_TOKEN) === true ? TOKEN : isUnknown ? UNKNOWN : undefined
  return {
    method,
    target: path ?? '/',
    headers: token === undefined ? [] : ['Authorization', `Bearer ${token}`],
    keyId: token === undefined ? (key ?? undefined) : undefined,
    atMs: Date.parse(at),
  }
}

const OF_TOKEN = 'jwt:'
/** Stand-ins for credentials, which are never recorded. */
const TOKEN = 'of.the.client'
const UNKNOWN = 'of-nobody'
const NO_CREDENTIAL = /^(?:missing_api_key|no Bearer)/

/** What was known then, as far as it was recorded. ban: the known ban of the key. */
export function knownThen(past: PastRequest, ban: BanRecord | undefined, config: Config): Known {
  const { refusal, window, client, charge } = past
  // The recorded use includes the request itself.
  const own = charge === 'stands' ? 1 : 0
  const use =
    isUseKnown(past) && perWindow(({ name }) => Math.max(0, (past[name]?.used ?? 0) - own))
  const isAnonymousUsedUp = refusal === 'rate_limit_exceeded' && window === null
  return {
    isOver: true,
    shed: refusal !== 'overloaded' ? 'nothing' : client === null ? 'anonymous' : 'everything',
    anonymousUsed: isAnonymousUsedUp ? config.anonymous.perMinute : 0,
    ofCaller: () => ({ ban: banThen(past, ban), ...(use && { use }) }),
  }
}

const isUseKnown = (past: PastRequest): boolean => windowNames.every((name) => past[name])

/** The known ban, if it ran at that time. The request whose strike begins a ban is not refused by it. */
function banThen({ at, refusal }: PastRequest, known: BanRecord | undefined) {
  if (refusal !== 'api_key_banned') return undefined
  const atMs = Date.parse(at)
  return known !== undefined && known.startedMs <= atMs && atMs < known.untilMs ? known : undefined
}

/** Adds what was recorded to the explanation by the rules. revision: the one that explains. */
export function withRecord(
  explained: Explanation,
  past: PastRequest,
  revision: string,
): Explanation {
  const recorded = notesOf(past)
  if (past.revision !== undefined && !revision.startsWith(past.revision))
    recorded.unshift(`decided under revision ${past.revision}, explained by ${revision}`)
  const quota = explained.stages.find(({ stage }) => stage === 'take-quota')
  if (!past.degraded && !isUseKnown(past) && quota?.verdict !== 'notReached')
    recorded.push('what the client had used is not recorded')
  const { code, status, retryAfterSeconds, change } = explained
  const isSame =
    isSameRefusal(explained, past) &&
    (past.retryAfterSeconds ?? retryAfterSeconds) === retryAfterSeconds
  const derived = `${status ?? 'sent'}${code === null ? '' : ` ${code}`}`
  if (!isSame) recorded.push(`${answerOf(past)}; the stages as known now say ${derived}`)
  else if (past.refusal === null) recorded.push(answerOf(past))
  else if (past.cause !== null) recorded.push(`cause: ${past.cause}`)
  const then = asRecorded(explained, past, recorded)
  return isSame ? { ...then, retryAfterSeconds, change } : then
}

function notesOf({ degraded, charge }: PastRequest): string[] {
  const away = degraded && 'the store was away, so store.onOutage decided'
  const back = charge === 'refunded' && 'its charge was handed back: no backend has seen it'
  return [away, back].filter((note) => note !== false)
}

/** Explanation from the record alone, without a configuration. left: what each window had left after the request. */
export function byRecordAlone(
  past: PastRequest,
  ban: BanRecord | undefined,
  left: { readonly [Field in `${WindowName}Left`]?: number | undefined },
): Explanation {
  const { at, method, path, route, client, key, plan, refusal, window, backend, cause } = past
  const decidedBy = deciderThen(past)
  const ran = banThen(past, ban)
  const words = windowsText((name) => `${count(left[`${name}Left`])} left`)
  const known = windowNames.map((name) => [`${name}Left`, left[`${name}Left`] ?? null] as const)
  const rules: Readonly<Record<string, string | null | undefined>> = {
    'match-route': route && `route ${route}`,
    authenticate: plan && `key ${key}, plan ${plan}`,
    forward: backend ?? 'no backend has seen it',
    ...(refusal && { [decidedBy]: cause ?? refusalKinds[refusal].message }),
    ...(ran && { 'check-ban': banInWords(ran, Date.parse(at)) }),
    ...(known.some(([, tokens]) => tokens !== null) && { 'take-quota': words }),
  }
  const stages = stageNames.map((stage): ExplainedStage => {
    const verdict = refusal !== null && stage === decidedBy ? 'refuse' : 'pass'
    const numbers = Object.fromEntries(stage === 'take-quota' ? known : [])
    return { stage, verdict, rule: rules[stage] ?? '', config: null, numbers }
  })
  const asked = { at, method, target: path ?? '/', key, client, plan, route, stages, decidedBy }
  const answer = { status: null, code: refusal, window, retryAfterSeconds: null, backend }
  const alone = { ...asked, ...answer, charged: false, change: [], assumed: null, recorded: [] }
  const under = past.revision === undefined ? '' : ` of revision ${past.revision}`
  const wanting = `settings, limits and what would change the answer need --config FILE${under}`
  const answered = backend === null ? [] : [answerOf(past)]
  return asRecorded(alone, past, [...notesOf(past), ...answered, wanting])
}

/** Replaces the answer that the stages derive today with the recorded one. */
function asRecorded(explained: Explanation, past: PastRequest, recorded: readonly string[]) {
  const { status, refusal: code, window, retryAfterSeconds, backend } = past
  const decidedBy = deciderThen(past)
  return {
    ...explained,
    status: status === 0 ? null : status,
    code,
    window,
    retryAfterSeconds,
    backend,
    stages: stagesThen(explained, past, decidedBy),
    decidedBy,
    charged: past.charge === 'stands',
    change: retryAfterSeconds === null ? [] : [`wait ${duration(retryAfterSeconds * 1000)}`],
    recorded,
  }
}

function deciderThen({ refusal, window, client, route, backend, cause }: PastRequest): StageName {
  if (backend !== null) return 'forward'
  // A preflight is answered without authentication.
  if (refusal === null)
    return client !== null ? 'forward' : route === null ? 'accept' : 'match-route'
  const isAuthenticated = client !== null && (refusal !== 'rate_limit_exceeded' || window !== null)
  return refusingStage(refusal, cause ?? undefined, isAuthenticated)
}

function stagesThen(explained: Explanation, past: PastRequest, decider: StageName) {
  const { stages } = explained
  const { refusal, retryAfterSeconds, client, backend, cause } = past
  const placeOf = (name: StageName): number => stages.findIndex(({ stage }) => stage === name)
  const decidedAt = placeOf(decider)
  const endAt = placeOf(lastStage(decider, client !== null))
  return stages.map((one, at): ExplainedStage => {
    const { stage, verdict, rule, numbers } = one
    if (at > endAt) return { stage, ...NOT_REACHED }
    if (at !== decidedAt) {
      if (verdict === 'pass' || (stage === 'match-route' && endAt <= placeOf('shed-load')))
        return one
      return { ...one, verdict: 'pass', rule: rule === '' ? 'passed' : `passed; now: ${rule}` }
    }
    if (refusal === null) return { ...one, verdict: backend === null ? 'pass' : 'sent' }
    const wait = retryAfterSeconds === null ? {} : { retryAfterSeconds }
    if (isSameRefusal(explained, past) && verdict === 'refuse')
      return { ...one, numbers: { ...numbers, ...wait } }
    const words = cause ?? refusalKinds[refusal].message
    return { ...one, verdict: 'refuse', rule: words, numbers: wait }
  })
}

const isSameRefusal = ({ code, window }: Explanation, past: PastRequest): boolean =>
  code === past.refusal && window === past.window

function answerOf(past: PastRequest): string {
  const { status, refusal, window, retryAfterSeconds, backend, backendMs, cause } = past
  return [
    `answered ${status}`,
    refusal === null ? '' : ` ${refusal}`,
    window === null ? '' : ` by ${window}`,
    retryAfterSeconds === null ? '' : `, Retry-After ${retryAfterSeconds}`,
    backend === null ? '' : `, from ${backend}`,
    backendMs === null ? '' : ` after ${backendMs} ms`,
    cause === null ? '' : `: ${cause}`,
  ].join('')
}
