/** `tollgate explain REQUEST_ID --log FILE`: explains a request of a Tollgate log by the configuration that is named, or by its line alone. */
import type { Config } from '../config/config.ts'
import { ConfigError } from '../config/problems.ts'
import { byRecordAlone, type PastRequest } from '../insight/explain/past.ts'
import { LogFileFault } from '../tools/log-files/input.ts'
import { explainPast } from '../server/gateway/explaining.ts'
import { findRequests, textOf, type FoundRequest } from '../tools/log-files/find-request.ts'
import { printExplanation } from './operator/explain.ts'
import type { Asking } from './operator/asking.ts'
import { refusalKinds, type RefusalCode } from '../core/rules/refusals.ts'
import { Fault } from './terminal/fault.ts'
import { OK, REFUSED, type Edge } from './edge.ts'
import { locationsIn } from './explain-offline.ts'
import { loadUsableConfig } from './load-usable-config.ts'

interface LoggedOptions extends Asking {
  readonly what: string
  readonly log: string
  readonly config?: string
  readonly at?: string
}

export async function explainLoggedCommand(edge: Edge, options: LoggedOptions): Promise<number> {
  const { config: file } = options
  if (file === undefined) {
    const found = await findOne(options)
    const { minuteLeft, dayLeft } = found.fields
    const left = { minuteLeft: numberOf(minuteLeft), dayLeft: numberOf(dayLeft) }
    const alone = byRecordAlone(pastOf(found), found.ban, left)
    printExplanation(edge, options, alone, Date.now())
    return OK
  }
  const config = await loadUsableConfig(file, edge.env).catch((error: unknown) => {
    if (!(error instanceof ConfigError)) throw error
    for (const line of error.format()) edge.complain(line)
    return undefined
  })
  if (config === undefined) return REFUSED
  const found = await findOne(options)
  const past = pastOf(found, config)
  checkRevision(past, config, file)
  const explanation = await explainPast(config, past, {
    ban: found.ban,
    findLocations: locationsIn(file, edge),
  })
  printExplanation(edge, options, explanation, Date.now())
  return OK
}

/** Refuses another revision: what the request had left would be read by other limits. */
function checkRevision({ revision }: PastRequest, config: Config, file: string): void {
  if (revision === undefined || config.revision.startsWith(revision)) return
  throw new Fault('other_revision', 'the request was decided under another configuration', {
    reason: `decided under revision ${revision}; ${file} is ${config.revision}`,
    remedy: 'give the configuration of that time, with its client files: --config FILE',
  })
}

async function findOne({ what: id, log, at }: LoggedOptions): Promise<FoundRequest> {
  const { found, lines, isCutOff } = await findRequests(log, id).catch((error: unknown) => {
    if (!(error instanceof LogFileFault)) throw error
    const { message, reason, remedy } = error
    throw new Fault('unreadable', message, { reason, remedy, cause: error })
  })
  const meant = at === undefined ? found : found.filter((one) => beganAt(one).startsWith(at))
  const [one, ...others] = meant
  if (one !== undefined && others.length === 0) return one
  if (one === undefined)
    throw new Fault('unknown_request', `no request ${id} is in ${log}`, {
      reason: `${lines} lines were read${isCutOff ? ', and the file breaks off in the midst of compressed data' : ''}${found.length > 0 ? `; ${found.length} have this id, but began at another time` : ''}`,
      remedy: 'name the log of that day, and of the gateway that answered: --log FILE',
    })
  throw new Fault('several_requests', `${meant.length} requests in ${log} have the id ${id}`, {
    reason: `a trusted proxy gave it to them: ${meant.map((other) => `line ${other.line} at ${beganAt(other)}`).join(', ')}`,
    remedy: `name the one by when it began: --at ${beganAt(one)}`,
  })
}

const numberOf = (value: unknown): number | null => (typeof value === 'number' ? value : null)

/** Time of the decision, else of the beginning, as RFC 3339; the line was written at the end. */
function beganAt({ fields: { time, agoMs, totalMs } }: FoundRequest): string {
  const beganMs = Date.parse(String(time)) - (numberOf(agoMs) ?? numberOf(totalMs) ?? 0)
  return new Date(Number.isNaN(beganMs) ? 0 : beganMs).toISOString()
}

const isRefusal = (code: string | null): code is RefusalCode =>
  code !== null && Object.hasOwn(refusalKinds, code)

/** A request that reached a backend for a known client stays charged; lines of earlier versions have neither refunds nor agoMs. */
function chargeOf({ client, refundAgoMs, refusal, backend, agoMs }: FoundRequest['fields']) {
  if (refundAgoMs !== undefined) return 'refunded'
  const isSent = backend !== undefined || (refusal ?? agoMs) === undefined
  return client !== undefined && isSent ? 'stands' : null
}

/** The request as its line has it; what it has left is derived from the limits of the configuration, where there is one. */
function pastOf(found: FoundRequest, config?: Config): PastRequest {
  const { fields } = found
  const text = (name: string): string | null => textOf(fields[name]) ?? null
  const number = (name: string): number | null => numberOf(fields[name])
  const [client, plan, refusal] = [text('client'), text('plan'), text('refusal')]
  const limits = config?.clients.get(client ?? '')?.limits ?? config?.plans.get(plan ?? '')?.limits
  const used = (left: number | null, limit = 0) =>
    left === null || limits === undefined ? null : { used: limit - left, limit }
  // Where both windows are used up the day counts, as its wait is the longest.
  const usedUp = refusal === 'rate_limit_exceeded' && plan !== null
  const by = number('dayLeft') === 0 || text('window') === 'day' ? 'day' : 'minute'
  return {
    at: beganAt(found),
    method: text('method') ?? 'GET',
    path: text('path') ?? text('target'),
    route: text('route'),
    client,
    key: text('key'),
    plan,
    status: number('status') ?? 0,
    refusal: isRefusal(refusal) ? refusal : null,
    window: usedUp ? by : null,
    retryAfterSeconds: null,
    minute: used(number('minuteLeft'), limits?.perMinute),
    day: used(number('dayLeft'), limits?.perDay),
    backend: text('backend'),
    backendMs: number('backendMs'),
    charge: chargeOf(fields),
    degraded: fields['degraded'] === true,
    cause: text('cause'),
    revision: text('rev') ?? found.revision,
  }
}
