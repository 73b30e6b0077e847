/** Checks of the form of refusals, and of the fields that are not about quotas. */
import type { KeyedAnswer } from './caller.ts'
import { answersOf, broken, holds, judgeEach, notClaimed } from './check.ts'
import type { Checks, Finding, Setup } from './check.ts'
import { header, headerValues, imfDate } from './standing.ts'

/** A key that nobody has, in the form of a valid one: its letters are reversed. */
const unknownKey = (sample: string): string => Array.from(sample).toReversed().join('')
const MALFORMED = ['x', '!', 'a'.repeat(300)]
// RFC 9457: problem+json has no charset parameter.
const JSON_TYPE = /^application\/(json *; *charset="?utf-8"?|problem\+json\b.*)$/i

async function unauthorized({ anonymous, sampleKey }: Setup): Promise<Finding> {
  const answers = [await anonymous.ask()]
  for (const key of [unknownKey(sampleKey), ...MALFORMED])
    answers.push(await anonymous.ask('GET', key))
  return judgeEach(answers, 'answers with a challenge', (answer) => {
    if (answer.status !== 401) return `it is answered ${answer.status}`
    const challenge = header(answer, 'www-authenticate') ?? ''
    return /^[!#$%&'*+.^_`|~\w-]+( |$)/.test(challenge) ? undefined : 'no challenge'
  })
}

async function sameRefusal({ anonymous, sampleKey }: Setup): Promise<Finding> {
  /** The body without the request id, which differs on every answer. */
  const body = async (key: string): Promise<string> => {
    const answer = await anonymous.ask('GET', key)
    return answer.body.replaceAll(header(answer, 'x-request-id') ?? '\0', '')
  }
  const unknown = await body(unknownKey(sampleKey))
  for (const key of MALFORMED)
    if ((await body(key)) !== unknown) return broken(`another for "Bearer ${key.slice(0, 8)}"`)
  return holds(`one body for ${MALFORMED.length + 1} wrong keys`)
}

const errorBody = ({ journals, anonymous }: Setup): Finding =>
  judgeEach(
    answersOf([...journals, anonymous]).filter(({ status }) => status === 401 || status === 429),
    'refusals in JSON',
    (answer) => {
      const type = header(answer, 'content-type') ?? 'no Content-Type'
      if (!JSON_TYPE.test(type)) return type
      try {
        JSON.parse(answer.body)
        return undefined
      } catch {
        return 'it is no JSON'
      }
    },
  )

function requestId({ journals, anonymous }: Setup): Finding {
  const ids = answersOf([...journals, anonymous]).map((answer) => header(answer, 'x-request-id'))
  if (ids.every((id) => id === undefined)) return notClaimed('none is sent')
  const seen = new Set<string>()
  return judgeEach(ids, 'ids, none of them twice', (id) => {
    if (id === undefined) return 'none is sent'
    return seen.size === seen.add(id).size ? 'it came before' : undefined
  })
}

/** Deprecation is an Item of RFC 9651 that is a Date; Sunset an HTTP-date that is not before it. */
function lifecycleFault(answer: KeyedAnswer): string | undefined {
  const [deprecation, sunset] = ['deprecation', 'sunset'].map((name) => header(answer, name))
  const [, since] = /^@(-?\d{1,15})$/.exec(deprecation ?? '') ?? []
  const endMs = imfDate(sunset ?? '')
  if (deprecation !== undefined && since === undefined) return `Deprecation: ${deprecation}`
  if (sunset !== undefined && endMs === undefined) return `Sunset: ${sunset}`
  if (since !== undefined && endMs !== undefined && endMs < Number(since) * 1_000)
    return 'the sunset lies before the deprecation'
  const link = /^<[^<>\s]*>( *; *[\w*-]+(=("[^"]*"|[^\s",;]+))?)*(,.*)?$/
  const bad = headerValues(answer, 'link').find((value) => !link.test(value))
  return bad && `Link: ${bad}`
}

const lifecycle = ({ journals }: Setup): Finding =>
  judgeEach(
    answersOf(journals).filter((answer) =>
      ['deprecation', 'sunset'].some((name) => header(answer, name) !== undefined),
    ),
    'answers with well-formed Deprecation or Sunset',
    lifecycleFault,
  )

export const responses: Checks = {
  'on-401': unauthorized,
  'same-401': sameRefusal,
  'error-body': errorBody,
  'request-id': requestId,
  lifecycle,
}
