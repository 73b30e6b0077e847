/** Holds what a client heard on one connection, and what the backend received of it, to what the oracle reads in its bytes. */
import type { RecordedRequest } from '../support/raw-backend.ts'
import { parseResponses, type ParsedResponse } from '../support/raw-client.ts'
import type { Ending } from './client-grammar.ts'
import type { Heard } from './conversation.ts'
import { ECHO, type Seen } from './recording-backend.ts'
import type { Forwarded, Reading } from './request-oracle.ts'

export interface Played {
  readonly readings: readonly Reading[]
  readonly ending: Ending
  readonly heard: Heard
}

/** Statuses of refusals that close the connection (contract.md section 6). */
const CLOSING = new Set([400, 408, 411, 413, 414, 431, 501])
const PLANS: Readonly<Record<string, string>> = {
  'free-client': 'free',
  'pro-client': 'pro',
  'business-client': 'business',
  'enterprise-client': 'enterprise',
}

/** How many final answers the client waits for. */
export const answersDue = (readings: readonly Reading[]): number =>
  readings.filter(({ unfinished }) => !unfinished).length

export function finalAnswers(raw: Buffer, readings: readonly Reading[]): number {
  const { responses } = parse(raw, readings)
  return responses.filter(({ status, complete }) => complete && status >= 200).length
}

function parse(raw: Buffer, readings: readonly Reading[]): ReturnType<typeof parseResponses> {
  const methods = readings.map(({ isHead }) => (isHead ? 'HEAD' : 'GET'))
  const parsed = parseResponses(raw, { methods, closed: true })
  const lastAt = parsed.responses.filter(({ status }) => status >= 200).length - 1
  const isSound = parsed.problem === undefined && parsed.responses.at(-1)?.complete !== false
  if (isSound || lastAt < 0) return parsed
  // Of what was no request, the gateway may have read that it began with HEAD, or not.
  const other = methods[lastAt] === 'HEAD' ? 'GET' : 'HEAD'
  return parseResponses(raw, { methods: methods.with(lastAt, other), closed: true })
}

/** Takes what it finds the backend to have received rightly out of seen, and reports by name what was wrong. */
export function judge({ readings, ending, heard }: Played, seen: Map<string, Seen>) {
  const { responses, problem } = parse(heard.raw, readings)
  const isPatient = ending === 'patient'
  const problems: string[] = []
  const statuses: number[] = []
  if (isPatient && heard.late) problems.push('the connection was not closed in time')
  if (isPatient && problem !== undefined) problems.push(`an answer that is none: ${problem}`)
  let index = 0
  let isEnded = false
  for (const response of responses) {
    const reading = readings[index]
    if (response.status < 200) {
      if (response.status !== 100 || !reading?.mayContinue)
        problems.push(`an interim ${response.status} before answer ${index}`)
      continue
    }
    statuses.push(response.status)
    if (isEnded || reading === undefined) {
      problems.push(`answer ${index}, ${response.status}, to nothing that was asked`)
      break
    }
    if (!response.complete && isPatient) problems.push(`answer ${index} is cut off`)
    if (response.complete)
      problems.push(
        ...judgeAnswer(response, reading, seen).map((what) => `answer ${index}: ${what}`),
      )
    isEnded = response.header('connection')?.toLowerCase() === 'close'
    // Refused by its head, then by its body.
    const isRefusedTwice =
      !isEnded && reading.last && reading.statuses.has(400) && response.status !== 400
    if (!isRefusedTwice) index++
  }
  // What is no request may be told so by a close alone.
  const isOwed = index < answersDue(readings) && readings[index]?.statuses.size === 0
  if (isPatient && !isEnded && isOwed)
    problems.push(`${index} answers instead of ${answersDue(readings)}`)
  return { problems, statuses, unanswered: readings.slice(index) }
}

function judgeAnswer(
  response: ParsedResponse,
  reading: Reading,
  seen: Map<string, Seen>,
): string[] {
  const problems: string[] = []
  const { status, framing } = response
  const ids = response.all('x-request-id')
  if (ids.length !== 1) return [`${ids.length} request ids`]
  const [id = ''] = ids
  const entry = seen.get(id)
  seen.delete(id)
  const closes = response.header('connection')?.toLowerCase() === 'close'
  if (framing === 'chunked' && reading.version === '1.0') problems.push('chunks in HTTP/1.0')
  if (entry?.whole) {
    if (status !== 200) problems.push(`${status} for what the backend answered`)
    if (response.header(ECHO) !== entry.request.target)
      problems.push('the answer to another request')
    if (reading.isHead === false && response.body.toString('latin1') !== entry.request.target)
      problems.push('another body than the backend sent')
    if (closes && reading.persists) problems.push('closed for no reason')
    return [...problems, ...differences(reading.forward, entry.request)]
  }
  if (entry !== undefined)
    problems.push(...differences(reading.brokenOff, entry.request, { isWhole: false }))
  if (!reading.statuses.has(status))
    problems.push(
      `${status} instead of ${[...reading.statuses, ...(reading.forward ? ['the backend'] : [])].join(' or ')}`,
    )
  if (CLOSING.has(status) && !closes) problems.push(`${status} that does not close`)
  if (status !== 200 && response.body.length > 0 && !isErrorResource(response))
    problems.push('a refusal without its Error')
  return problems
}

function isErrorResource({ status, body }: ParsedResponse): boolean {
  try {
    const error = JSON.parse(body.toString()) as Record<string, unknown>
    return error['status'] === status && typeof error['code'] === 'string'
  } catch {
    return false
  }
}

/** Names as CGI and its heirs see them, which the gateway alone may set, or which are for one connection only. */
const OWN = /^(?:x-client-|x-request-id$|x-forwarded-|forwarded|via$|host$|x-real-ip$)/
const NEVER =
  /^(?:authorization|proxy|te$|trailer$|upgrade$|expect$|keep-alive$|http2-settings$|x-original-url$|x-rewrite-url$|x-ratelimit|ratelimit)/

/** What is wrong with a request at the backend. */
export function differences(
  forward: Forwarded | undefined,
  request: RecordedRequest,
  { isWhole = true } = {},
): string[] {
  const { method, target, headers } = request
  if (forward === undefined) return [`the backend received ${method} ${target}`]
  const problems: string[] = []
  const expect = (what: string, is: unknown, should: unknown): void => {
    if (is !== should)
      problems.push(`the backend received ${what} ${String(is)} instead of ${String(should)}`)
  }
  expect('method', method, forward.method)
  expect('target', target, forward.target)
  if (isWhole) expect('body', request.body.toString('latin1'), forward.body)
  const own = new Map<string, string>()
  const probes: string[] = []
  for (let at = 0; at < headers.length; at += 2) {
    const [name = '', value = ''] = [headers[at]?.toLowerCase(), headers[at + 1]]
    const seenAs = name.replaceAll(/[^a-z0-9]/g, '-')
    if (NEVER.test(seenAs)) problems.push(`the backend received ${name}`)
    if (name.startsWith('x-probe')) probes.push(`${headers[at] ?? ''}: ${value}`)
    if (!OWN.test(seenAs)) continue
    if (own.has(seenAs) || seenAs !== name)
      problems.push(`the backend received ${name} besides ours`)
    own.set(seenAs, value)
  }
  expect('fields', probes.join('\n'), forward.fields.join('\n'))
  own.delete('x-request-id')
  const expected = {
    host: forward.host,
    'x-client-id': forward.client,
    'x-client-plan': PLANS[forward.client],
    'x-forwarded-for': '127.0.0.1',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': forward.host,
    via: '1.1 tollgate',
  }
  for (const [name, value] of Object.entries(expected)) expect(name, own.get(name), value)
  expect('number of own fields', own.size, Object.keys(expected).length)
  return problems
}
