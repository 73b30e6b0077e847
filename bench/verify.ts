/** Proves, before anything is measured, that a scenario does what its row will claim. */
import { equal, match, ok } from 'node:assert/strict'
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BackendReport } from './backend.ts'
import { portOf, runLoad, type Expectation, type LoadOrder } from './load-order.ts'
import { readCounters } from './metrics.ts'
import type { Load, Scenario, World } from './scenarios.ts'
import type { Subject } from './subjects.ts'
import {
  ampleClients,
  ampleLimits,
  backendBody,
  connections,
  exhaustedClients,
  keyCount,
  requestPath,
  unknownKeys,
} from './workload.ts'

const burstRequests = 2000
const banTimeoutMs = 5_000

export interface Answer {
  readonly status: number
  /** As received, without those that node:http writes by itself (Date, Connection, Keep-Alive). */
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: string
}

const expectations: Record<Load, Expectation> = {
  served: { status: 200, body: backendBody },
  exhausted: { status: 429, partOfBody: 'rate_limit_exceeded' },
  banned: { status: 429, partOfBody: 'api_key_banned' },
  unknown: { status: 401, partOfBody: 'invalid_api_key' },
}

const keysOf: Record<Load, readonly string[]> = {
  served: ampleClients.map(({ key }) => key),
  exhausted: exhaustedClients.map(({ key }) => key),
  banned: exhaustedClients.map(({ key }) => key),
  unknown: unknownKeys,
}

/** The load a scenario gets; how long and what is read meanwhile is up to the caller. */
export const loadFor = ({ load }: Scenario, { server }: Subject): Omit<LoadOrder, 'length'> => ({
  ports: [portOf(server.origin)],
  connections,
  path: requestPath,
  keys: keysOf[load],
  pick: 'turn',
  expect: expectations[load],
})

/** Throws an AssertionError naming what is not as it should be; resolves to the refusal where the scenario gives one. */
export async function verify(
  scenario: Scenario,
  subject: Subject,
  world: World,
): Promise<Answer | undefined> {
  const ask: Ask = (key) => fetchAnswer(`${subject.server.origin}${requestPath}`, key)
  let answer: Answer | undefined
  if (scenario.load === 'served') await verifyServed(scenario, ask)
  else answer = await verifyRefused(scenario, ask, world)
  await verifyBurst(scenario, subject, world)
  return answer
}

type Ask = (key: string) => Promise<Answer>

async function verifyServed({ load, job, processes = 1 }: Scenario, ask: Ask): Promise<void> {
  const key = keysOf[load][0] ?? ''
  let first = await ask(key)
  let second = await ask(key)
  // A minute that ended between the two: the next pair lies within one.
  if (header(first, 'x-ratelimit-reset') !== header(second, 'x-ratelimit-reset')) {
    first = await ask(key)
    second = await ask(key)
  }
  for (const { status, body } of [first, second]) {
    equal(status, 200, 'status')
    equal(body, backendBody, 'body')
  }
  if (job !== 'limits') return
  equal(header(first, 'x-ratelimit-limit'), String(ampleLimits.perMinute), 'X-RateLimit-Limit')
  match(header(first, 'x-ratelimit-reset'), /^\d+$/, 'X-RateLimit-Reset')
  const [before = NaN, after = NaN] = [first, second].map((answer) =>
    Number(header(answer, 'x-ratelimit-remaining')),
  )
  if (processes === 1) equal(after, before - 1, 'X-RateLimit-Remaining falls by one')
  else ok(after < before, 'X-RateLimit-Remaining falls')
  const stranger = await ask(unknownKeys[0] ?? '')
  equal(stranger.status, 401, 'status of an unknown key')
  match(header(stranger, 'www-authenticate'), /^Bearer/, 'WWW-Authenticate of an unknown key')
}

async function verifyRefused(scenario: Scenario, ask: Ask, world: World): Promise<Answer> {
  const { load, repeats } = scenario
  if (repeats === undefined) {
    if (load !== 'unknown') {
      for (const key of keysOf[load]) equal((await ask(key)).status, 200, 'the one request')
    }
    if (load === 'banned') {
      for (const key of keysOf.banned) await untilBanned(() => ask(key))
    }
  }
  const answer = await ask(keysOf[load][0] ?? '')
  const { status, partOfBody = '' } = expectations[load]
  equal(answer.status, status, 'status')
  ok(answer.body.includes(partOfBody), `the body names ${partOfBody}`)
  if (load === 'unknown') {
    match(header(answer, 'www-authenticate'), /^Bearer/, 'WWW-Authenticate')
  } else {
    match(header(answer, 'retry-after'), /^[1-9]\d*$/, 'Retry-After')
    equal(header(answer, 'x-ratelimit-remaining'), '0', 'X-RateLimit-Remaining')
  }
  if (repeats !== undefined) {
    const original = world.answerOf(repeats)
    equal(JSON.stringify(answer), JSON.stringify(original), 'the same answer as the gateway')
  }
  return answer
}

async function untilBanned(ask: () => Promise<Answer>): Promise<void> {
  const deadline = Date.now() + banTimeoutMs
  while (Date.now() < deadline) {
    const { body } = await ask()
    if (body.includes(expectations.banned.partOfBody ?? '')) return
    // A strike is a request in a later millisecond than the first 429.
    await sleep(2)
  }
  throw new Error('a key that goes on after its first 429 is not banned')
}

/** The measured load itself, briefly, with the backend counting. */
async function verifyBurst(scenario: Scenario, subject: Subject, world: World): Promise<void> {
  const { load, job } = scenario
  const strikes = async (): Promise<number> =>
    subject.admin === undefined ? 0 : (await readCounters([subject.admin])).strikes
  const strikesBefore = await strikes()
  await world.backend.ask('record')
  const length = { requests: burstRequests }
  await runLoad(world.processes, { ...loadFor(scenario, subject), length })
  const seen = await world.backend.ask<BackendReport>('report')
  const served = load === 'served'
  const limited = job === 'limits'
  equal(seen.requests, served ? burstRequests : 0, 'requests seen by the backend')
  equal(seen.clients, served ? keyCount : 0, 'distinct clients seen by the backend')
  equal(seen.identified, served && limited ? burstRequests : 0, 'X-Client-Id seen by the backend')
  equal(seen.credentials, served && !limited ? burstRequests : 0, 'keys seen by the backend')
  if (load === 'exhausted' && subject.admin !== undefined) {
    // The first 429 of a key is none.
    ok((await strikes()) - strikesBefore >= burstRequests - keyCount, 'each refusal is a strike')
  }
}

function header({ headers }: Answer, name: string): string {
  return headers.find(([field]) => field.toLowerCase() === name)?.[1] ?? ''
}

async function fetchAnswer(url: string, key: string): Promise<Answer> {
  const outgoing = request(url, { headers: { authorization: `Bearer ${key}` } })
  outgoing.end()
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  const body = await text(incoming)
  const headers: [string, string][] = []
  for (let index = 0; index < incoming.rawHeaders.length; index += 2) {
    const [name = '', value = ''] = incoming.rawHeaders.slice(index, index + 2)
    if (!/^(date|connection|keep-alive)$/i.test(name)) headers.push([name, value])
  }
  return { status: incoming.statusCode ?? 0, headers, body }
}
