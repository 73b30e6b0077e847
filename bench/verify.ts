/** Proves, before anything is measured, that a scenario does what its row will claim. */
import { equal, match, ok } from 'node:assert/strict'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { IncomingMessage } from 'node:http'
import type { BackendReport } from './backend.ts'
import { readCounter } from './gateway-metrics.ts'
import type { Expectation, LoadOrder } from './load.ts'
import type { Load, Scenario, Subject, World } from './scenarios.ts'
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
  served: { status: 200, body: backendBody, exact: true },
  exhausted: { status: 429, body: 'rate_limit_exceeded', exact: false },
  banned: { status: 429, body: 'api_key_banned', exact: false },
  unknown: { status: 401, body: 'invalid_api_key', exact: false },
}

const keysOf: Record<Load, readonly string[]> = {
  served: ampleClients.map(({ key }) => key),
  exhausted: exhaustedClients.map(({ key }) => key),
  banned: exhaustedClients.map(({ key }) => key),
  unknown: unknownKeys,
}

/** The load a scenario gets; `length` and `pids` are the caller's. */
export function loadFor(
  { load }: Scenario,
  { server }: Subject,
): Omit<LoadOrder, 'length' | 'pids'> {
  return {
    url: `${server.origin}${requestPath}`,
    connections,
    keys: keysOf[load],
    distribution: load === 'unknown' ? 'own' : 'rotate',
    expect: expectations[load],
  }
}

/** Throws an AssertionError naming what is not as it should be; resolves to the refusal where the scenario gives one. */
export async function verify(
  scenario: Scenario,
  subject: Subject,
  world: World,
): Promise<Answer | undefined> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const ask = (key: string): Promise<Answer> =>
    fetchAnswer(`${subject.server.origin}${requestPath}`, key, agent)
  try {
    let answer: Answer | undefined
    if (scenario.load === 'served') await verifyServed(scenario, ask)
    else answer = await verifyRefused(scenario, ask, world)
    await verifyBurst(scenario, subject, world)
    return answer
  } finally {
    agent.destroy()
  }
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
  const { status, body } = expectations[load]
  equal(answer.status, status, 'status')
  ok(answer.body.includes(body), `the body names ${body}`)
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
    if (body.includes(expectations.banned.body)) return
    // A strike is a request in a later millisecond than the first 429.
    await sleep(2)
  }
  throw new Error('a key that goes on after its first 429 is not banned')
}

/** The measured load itself, briefly, with the backend counting. */
async function verifyBurst(scenario: Scenario, subject: Subject, world: World): Promise<void> {
  const { load, job } = scenario
  const strikes = async (): Promise<number> =>
    subject.admin === undefined ? 0 : readCounter(subject.admin, 'tollgate_strikes_total')
  const strikesBefore = await strikes()
  await world.backend.ask('record')
  const { faults } = await world.processes.load({
    ...loadFor(scenario, subject),
    length: { amount: burstRequests },
    pids: [],
  })
  const seen = await world.backend.ask<BackendReport>('report')
  equal(faults.join(', '), '', 'the burst')
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

async function fetchAnswer(url: string, key: string, agent: Agent): Promise<Answer> {
  const outgoing = request(url, { agent, headers: { authorization: `Bearer ${key}` } })
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
