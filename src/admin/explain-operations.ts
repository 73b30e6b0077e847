/** Explains the answer to a hypothetical or recorded request. Nothing is charged, changed or logged. */
import type { ExplainAnswer, ExplainQuery } from '../insight/api/explain.ts'
import type { Decision } from '../core/record/recent.ts'
import { fault, invalidRequest, json, type Answer } from './answers.ts'
import type { LiveNeeds } from './live-operations.ts'
import type { Call } from './operation.ts'
import { isAnswer, isRecord, readJson } from './read-json.ts'

/** A hypothetical request. */
export type HypotheticalRequest = Extract<ExplainQuery, { method: string }>

/** An answer without asOf, which is added when it is sent. */
export type Explained = Omit<ExplainAnswer, 'asOf'>

export interface ExplainNeeds extends Pick<LiveNeeds, 'recentRequests'> {
  readonly explain: {
    /** undefined: no client of the configuration has a key of this id. */
    hypothetical(query: HypotheticalRequest): Promise<Explained | undefined>
    recorded(decision: Decision): Promise<Explained>
    /** Whether another explanation may be made now: each takes time from the process that serves. */
    mayAsk(): boolean
  }
}

export async function explain(needs: ExplainNeeds, { request }: Call): Promise<Answer> {
  const body = await readJson(request)
  if (isAnswer(body)) return body
  const query = queryOf(body)
  if (typeof query === 'string') return invalidRequest(query)
  if (!needs.explain.mayAsk()) return tooMany
  if ('requestId' in query) return explainRecorded(needs, query.requestId)
  const explained = await needs.explain.hypothetical(query)
  return explained === undefined ? unknownKey : answered(explained)
}

const answered = (explained: Explained): Answer =>
  json(200, { asOf: new Date().toISOString(), ...explained })

async function explainRecorded(needs: ExplainNeeds, id: string): Promise<Answer> {
  const found = await needs.recentRequests({ client: undefined, refused: false, id })
  const { requests, missing } = found
  const [decision, ...others] = requests
  if (decision === undefined) return missing.length > 0 ? fault(unknown, { missing }) : notKept
  if (others.length > 0) return several(requests)
  const explained = await needs.explain.recorded(decision)
  const incomplete = [...missing, ...(explained.missing ?? [])]
  return answered({ ...explained, ...(incomplete.length > 0 && { missing: incomplete }) })
}

const FORM =
  'Send {"requestId":"ID"}, or {"method":"GET","target":"/v1/pets","keyId":"KEY_ID"}: in place of keyId a token or neither, and headers where they matter.'

/** Most header fields of a request. */
const MOST_HEADERS = 100
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}$/
/** RFC 9110 5.5: visible characters, spaces and tabs; longer ones are refused by any gateway. */
const fieldValue = /^[\t\x20-\x7e\x80-\xff]{0,16384}$/
/** Targets may be long enough for any gateway to refuse them, so that this can be explained. */
const target = /^[\x21-\x7e\x80-\xff]{1,32768}$/

/** Returns a text if the body is malformed: what is wrong, never what was sent, which may be a token. */
function queryOf(body: unknown): ExplainQuery | string {
  if (!isRecord(body)) return FORM
  const { requestId, ...rest } = body
  if (requestId !== undefined) {
    if (Object.keys(rest).length > 0) return `"requestId" stands alone. ${FORM}`
    const isId = typeof requestId === 'string' && /^[\x20-\x7e]{1,200}$/.test(requestId)
    return isId ? { requestId } : '"requestId" is a text of up to 200 plain characters.'
  }
  const { method, target: asked, keyId, token: sent, headers = {}, ...unknown } = rest
  const [other] = Object.keys(unknown)
  if (other !== undefined) return FORM
  if (typeof method !== 'string' || !token.test(method))
    return '"method" is a method such as "GET".'
  if (typeof asked !== 'string' || !target.test(asked))
    return '"target" is what stands in a request line, such as "/v1/pets?limit=5": no spaces, up to 32 KiB.'
  if (keyId !== undefined && sent !== undefined)
    return '"keyId" and "token": send one of them, or neither for a request without a credential.'
  if (keyId !== undefined && (typeof keyId !== 'string' || keyId === ''))
    return '"keyId" is the id of a key, as tollgate keys list has it.'
  if (sent !== undefined && (typeof sent !== 'string' || !fieldValue.test(sent) || sent === ''))
    return '"token" is what stands behind "Bearer": one line.'
  if (!isRecord(headers)) return HEADERS
  const fault = headersFault(headers, keyId !== undefined || sent !== undefined)
  if (fault !== undefined) return fault
  return {
    method,
    target: asked,
    ...(keyId !== undefined && { keyId }),
    ...(sent !== undefined && { token: sent }),
    headers: headers as Record<string, string>,
  }
}

const HEADERS = `"headers" is an object of up to ${MOST_HEADERS} names with one line of text each.`

function headersFault(headers: Record<string, unknown>, hasCredential: boolean) {
  const names = Object.keys(headers).map((name) => name.toLowerCase())
  const isForm = Object.entries(headers).every(
    ([name, value]) => token.test(name) && typeof value === 'string' && fieldValue.test(value),
  )
  if (!isForm || names.length > MOST_HEADERS) return HEADERS
  if (new Set(names).size < names.length) return 'Each header stands once in "headers".'
  return hasCredential && names.includes('authorization')
    ? 'The credential stands twice: leave Authorization out of "headers".'
    : undefined
}

const unknown = {
  status: 404,
  code: 'unknown_request',
  message:
    'No request of this id is among the latest that this gateway keeps in memory; look in its log: tollgate explain ID --log FILE --config FILE.',
}
const notKept = fault(unknown)
const unknownKey = fault({
  status: 404,
  code: 'unknown_key',
  message: 'No client of the configuration has a key of this id.',
})
const several = (requests: readonly Decision[]): Answer =>
  fault({
    status: 409,
    code: 'several_requests',
    message: `${requests.length} of the latest requests have this id, which a trusted proxy gave them; send the method, target and keyId of the one that is meant: ${requests
      .slice(0, 5)
      .map(({ at, method, path, key }) => `${at} ${method} ${path ?? '–'} ${key ?? '–'}`)
      .join('; ')}.`,
  })
const tooMany = fault(
  {
    status: 429,
    code: 'too_many_explanations',
    message: 'So many are explained at the moment that callers could feel it; ask again in 1 s.',
  },
  { fields: { 'Retry-After': '1' } },
)
