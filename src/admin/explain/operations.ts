/** Explains the answer to a hypothetical or recorded request. Nothing is charged, changed or logged. */
import { z } from 'zod'
import type { ExplainAnswer } from '../../insight/api/explain.ts'
import type { Requests } from '../../insight/api/live.ts'
import type { Decision } from '../../core/record/recent.ts'
import { fault, iso, type Answer } from '../answers.ts'
import { checked, inquire, readJson, type ApiNeeds } from '../operation.ts'

/** Body of POST /api/explain: a hypothetical request, or the id of a recent one. */
export type ExplainQuery = z.input<typeof hypothetical> | z.input<typeof recorded>
export type HypotheticalRequest = z.infer<typeof hypothetical>

/** An answer without asOf, which is added when it is sent. */
export type Explained = Omit<ExplainAnswer, 'asOf'>

export interface ExplainNeeds {
  readonly explain: {
    /** undefined: no client of the configuration has a key of this id. */
    hypothetical(query: HypotheticalRequest): Promise<Explained | undefined>
    recorded(decision: Decision): Promise<Explained>
    /** Whether another explanation may be made now: each takes time from the process that serves. */
    mayAsk(): boolean
  }
}

const FORM =
  'Send {"requestId":"ID"}, which stands alone, or {"method":"GET","target":"/v1/pets","keyId":"KEY_ID"}: in place of keyId a token or neither, and headers where they matter.'

const MOST_HEADERS = 100
const token = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}$/
/** RFC 9110 5.5: visible characters, spaces and tabs; longer ones are refused by any gateway. */
const fieldValue = /^[\t\x20-\x7e\x80-\xff]{0,16384}$/
/** Targets may be long enough for any gateway to refuse them, so that this can be explained. */
const target = /^[\x21-\x7e\x80-\xff]{1,32768}$/

const TARGET =
  'is what stands in a request line, such as "/v1/pets?limit=5": no spaces, up to 32 KiB'
const BEARER = 'is what stands behind "Bearer": one line'
const HEADERS = `is an object of up to ${MOST_HEADERS} names with one line of text each`

const namesOf = (headers: object): string[] =>
  Object.keys(headers).map((name) => name.toLowerCase())
/** Faults say what is wrong, never what was sent, which may be a token. */
const text = (shape: RegExp, fault: string) => z.string(fault).regex(shape, fault)

const recorded = z.strictObject({
  requestId: text(/^[\x20-\x7e]{1,200}$/, 'is a text of up to 200 plain characters'),
})
const hypothetical = z
  .strictObject({
    method: text(token, 'is a method such as "GET"'),
    target: text(target, TARGET),
    keyId: text(/[^]/, 'is the id of a key, as tollgate keys list has it').exactOptional(),
    token: text(fieldValue, BEARER).min(1, BEARER).exactOptional(),
    headers: z
      .record(text(token, HEADERS), text(fieldValue, HEADERS), HEADERS)
      .refine((headers) => namesOf(headers).length <= MOST_HEADERS, HEADERS)
      .refine(
        (headers) => new Set(namesOf(headers)).size === namesOf(headers).length,
        'has each header once',
      )
      .default({}),
  })
  .refine(({ keyId, token }) => keyId === undefined || token === undefined, {
    path: ['keyId'],
    message: 'and "token": send one of them, or neither for a request without a credential',
  })
  .refine(
    ({ keyId, token, headers }) =>
      (keyId ?? token) === undefined || !namesOf(headers).includes('authorization'),
    { path: ['headers'], message: 'has no Authorization: the credential would stand there twice' },
  )

export const explainOperation = inquire('/api/explain', async (needs, { request }) => {
  const body = await readJson(request)
  const isRecorded = typeof body === 'object' && body !== null && 'requestId' in body
  const query = isRecorded ? checked(body, recorded, FORM) : checked(body, hypothetical, FORM)
  if (!needs.explain.mayAsk())
    return fault('too_many_explanations', { fields: { 'Retry-After': '1' } })
  if ('requestId' in query) return explainRecorded(needs, query.requestId)
  const explained = await needs.explain.hypothetical(query)
  return explained === undefined ? fault('unknown_key') : answered(explained)
})

const answered = (explained: Explained) => ({ asOf: iso(Date.now()), ...explained })

async function explainRecorded(needs: ApiNeeds, id: string) {
  const { requests, missing, where } = await recordedAs(needs, id)
  const [decision, ...others] = requests
  if (decision === undefined) return fault('unknown_request', missing.length > 0 ? { missing } : {})
  if (others.length > 0) return several(requests)
  const { explanation, ...explained } = await needs.explain.recorded(decision)
  const incomplete = [...missing, ...(explained.missing ?? [])]
  return answered({
    ...explained,
    explanation: { ...explanation, recorded: [...where, ...explanation.recorded] },
    ...(incomplete.length > 0 && { missing: incomplete }),
  })
}

/** Returns what this gateway keeps of the request, or else what another one keeps. */
async function recordedAs({ recentRequests, fleet }: ApiNeeds, id: string) {
  const own = await recentRequests({ client: undefined, refused: false, id })
  if (own.requests.length > 0) return { ...own, where: [] }
  const target = `/api/requests?id=${encodeURIComponent(id)}`
  const { parts, gateways } = await fleet.ask(target)
  const kept = parts as readonly Requests[]
  const at = kept.findIndex(({ requests }) => requests.length > 0)
  const { requests } = kept[at] ?? own
  const missing = at < 0 ? [...own.missing, ...gateways.why] : []
  return { requests, missing, where: at < 0 ? [] : [`decided at ${gateways.answered[at + 1]}`] }
}

function several(requests: readonly Decision[]): Answer {
  const first = requests
    .slice(0, 5)
    .map(({ at, method, path, key }) => `${at} ${method} ${path ?? '–'} ${key ?? '–'}`)
  return fault('several_requests', {
    message: `${requests.length} of the latest requests have this id, which a trusted proxy gave them; send the method, target and keyId of the one that is meant: ${first.join('; ')}.`,
  })
}
