/** `tollgate explain` without any gateway: the answer to a request by a configuration, or that to a request of a log, which may be explained by its line alone. */
import type { Config } from '../config/config.ts'
import { perWindow, windowNames, type PerWindow } from '../config/time.ts'
import { byRecordAlone, type PastRequest } from '../insight/explain/past.ts'
import { findRequests, type FoundRequest } from '../tools/log-files/find-request.ts'
import { numberOf, textOf } from '../tools/log-files/lines.ts'
import { explain, explainPast } from '../server/gateway/explaining.ts'
import { headerPairs, printExplanation, requestLine, USED_FORM } from './operator/explain.ts'
import type { AskedExplanation } from './operator/explain.ts'
import { isJwtForm, readBearer } from '../core/rules/credentials.ts'
import { isRefusal, refusalKinds, type RefusalCode } from '../core/rules/refusals.ts'
import { Fault, usageFault } from './terminal/fault.ts'
import type { Edge } from './edge.ts'
import { loadUsableConfig } from './usable-config.ts'

type OfflineOptions = AskedExplanation & { readonly config: string }

export async function explainOfflineCommand(edge: Edge, options: OfflineOptions): Promise<void> {
  const { what, config: file, key, header = [], used, at } = options
  const asked = requestLine(what)
  if (asked === undefined) throw usageFault('--config takes a request such as "GET /v1/pets"')
  const atMs = at === undefined ? Date.now() : Date.parse(at)
  if (Number.isNaN(atMs)) throw usageFault(`--at ${at}: write a time as 2026-11-03T14:07:31Z`)
  const use = { ...useOf(used), isAssumed: true }
  const config = await loadUsableConfig(file, edge.env)
  if (key !== undefined) checkKey(config, key, file)
  const headers = headerPairs(header)
  checkCredentials(config, headers)
  const question = { ...asked, headers: headers.flat(), keyId: key, atMs }
  const known = { ofCaller: () => ({ use }) }
  printExplanation(edge, options, await explain(config, question, known), atMs)
}

function useOf(text = ''): PerWindow<number> {
  const counts = new Map<string, number>()
  for (const part of text === '' ? [] : text.split(',')) {
    const [, window = '', count] = /^(\w+)=(\d{1,15})$/.exec(part) ?? []
    if (!windowNames.some((name) => name === window))
      throw usageFault(`--used ${text}: write it as ${USED_FORM}`)
    counts.set(window, Number(count))
  }
  // Use of a window is also use of the longer ones.
  let used = 0
  return perWindow(({ name }) => (used = Math.max(used, counts.get(name) ?? 0)))
}

function checkCredentials({ jwt }: Config, headers: readonly (readonly [string, string])[]): void {
  const isToken = ([name, value]: readonly [string, string]): boolean => {
    const token = readBearer(value, 1)
    return name.toLowerCase() === 'authorization' && !isRefusal(token) && isJwtForm(token)
  }
  if (jwt !== undefined && headers.some(isToken))
    throw usageFault('a signed token is read by a running gateway alone: leave --config out')
}

function checkKey({ clients }: Config, key: string, file: string): void {
  if (clients.keyById(key) !== undefined) return
  throw new Fault('unknown_key', `no key ${key} is in ${file}`, {
    reason: 'the configuration and its client files have no key with this id',
    remedy: `list them: tollgate keys list --config ${file}`,
  })
}

type LoggedOptions = AskedExplanation & { readonly log: string }

export async function explainLoggedCommand(edge: Edge, options: LoggedOptions): Promise<void> {
  const { config: file } = options
  const config = file === undefined ? undefined : await loadUsableConfig(file, edge.env)
  const found = await findOne(options)
  const { ban, row } = found
  const past = pastOf(found, config)
  if (config !== undefined) checkRevision(past, config, file)
  const explanation =
    config === undefined ? byRecordAlone(past, ban, row) : await explainPast(config, past, ban)
  printExplanation(edge, options, explanation, Date.now())
}

/** Refuses another revision: what the request had left would be read by other limits. */
function checkRevision({ revision }: PastRequest, config: Config, file = ''): void {
  if (revision === undefined || config.revision.startsWith(revision)) return
  throw new Fault('other_revision', 'the request was decided under another configuration', {
    reason: `decided under revision ${revision}; ${file} is ${config.revision}`,
    remedy: 'give the configuration of that time, with its client files: --config FILE',
  })
}

async function findOne({ what: id, log, at }: LoggedOptions): Promise<FoundRequest> {
  const { found, lines, isCutOff } = await findRequests(log, id)
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

/** Time of the decision, else of the beginning, as RFC 3339; the line was written at the end. */
function beganAt({ fields: { agoMs, totalMs }, row }: FoundRequest): string {
  const beganMs = agoMs === undefined ? row.writtenMs - (numberOf(totalMs) ?? 0) : row.atMs
  return new Date(beganMs).toISOString()
}

const isCode = (code: string | null): code is RefusalCode =>
  code !== null && Object.hasOwn(refusalKinds, code)

/** A request that reached a backend for a known client stays charged; lines of earlier versions have neither refunds nor agoMs. */
function chargeOf({ client, refundAgoMs, refusal, backend, agoMs }: FoundRequest['fields']) {
  if (refundAgoMs !== undefined) return 'refunded'
  const isSent = backend !== undefined || (refusal ?? agoMs) === undefined
  return client !== undefined && isSent ? 'stands' : null
}

/** The request as its line has it; what it has left is derived from the limits of the configuration, where there is one. */
function pastOf(found: FoundRequest, config?: Config): PastRequest {
  const { fields, row } = found
  const { outcome, plan = null } = row
  const text = (name: string): string | null => textOf(fields[name]) ?? null
  const [client, refusal] = [text('client'), text('refusal')]
  const limits = config?.clients.get(client ?? '')?.limits ?? config?.plans.get(plan ?? '')?.limits
  const used = (left: number | undefined, limit = 0) =>
    left === undefined || limits === undefined ? null : { used: limit - left, limit }
  return {
    at: beganAt(found),
    method: text('method') ?? 'GET',
    path: text('path') ?? text('target'),
    route: text('route'),
    client,
    key: text('key'),
    plan,
    status: Number(fields['status']),
    refusal: isCode(refusal) ? refusal : null,
    window: windowNames.find((name) => name === outcome) ?? null,
    retryAfterSeconds: null,
    ...perWindow(({ name, limit }) => used(row[`${name}Left`], limits?.[limit])),
    backend: text('backend'),
    backendMs: numberOf(fields['backendMs']) ?? null,
    charge: chargeOf(fields),
    degraded: row.isDegraded,
    cause: text('cause'),
    revision: row.revision ?? found.revision,
  }
}
