/** Proves, before anything is measured, that a scenario does what its row will claim. */
import { equal, match, ok } from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { BackendReport } from './backend.ts'
import { portOf, runLoad, type Expectation, type LoadOrder } from './load-order.ts'
import { readCounters } from './metrics.ts'
import type { Load, Scenario, World } from './scenarios.ts'
import type { Subject } from './subjects.ts'
import { openAsker, requestHead } from './wire.ts'
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
  readonly headers: readonly (readonly string[])[]
  readonly body: string
}

const ample = ampleClients.map(({ key }) => key)
const exhausted = exhaustedClients.map(({ key }) => key)

const loads: Record<Load, { readonly keys: readonly string[]; readonly expect: Expectation }> = {
  served: { keys: ample, expect: { status: 200, body: backendBody } },
  exhausted: { keys: exhausted, expect: { status: 429, partOfBody: 'rate_limit_exceeded' } },
  banned: { keys: exhausted, expect: { status: 429, partOfBody: 'api_key_banned' } },
  unknown: { keys: unknownKeys, expect: { status: 401, partOfBody: 'invalid_api_key' } },
}

/** The load a scenario gets; how long and what is read meanwhile is up to the caller. */
export const loadFor = (
  { load, traffic }: Scenario,
  { server }: Subject,
): Omit<LoadOrder, 'length'> => ({
  ports: [portOf(server.origin)],
  connections,
  path: requestPath,
  pick: 'turn',
  ...loads[load],
  ...traffic,
})

/** Throws an AssertionError naming what is not as it should be; resolves to the refusal where the scenario gives one. */
export async function verify(
  scenario: Scenario,
  subject: Subject,
  world: World,
): Promise<Answer | undefined> {
  const ask: Ask = (key) => askOnce(loadFor(scenario, subject), key)
  let answer: Answer | undefined
  if (scenario.load === 'served') await verifyServed(scenario, ask)
  else answer = await verifyRefused(scenario, ask, world)
  await verifyBurst(scenario, subject, world)
  return answer
}

type Ask = (key: string) => Promise<Answer>

async function verifyServed({ load, job, processes = 1 }: Scenario, ask: Ask): Promise<void> {
  const key = loads[load].keys[0] ?? ''
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
  const unknown = await ask(unknownKeys[0] ?? '')
  equal(unknown.status, 401, 'status of an unknown key')
  match(header(unknown, 'www-authenticate'), /^Bearer/, 'WWW-Authenticate of an unknown key')
}

async function verifyRefused(scenario: Scenario, ask: Ask, world: World): Promise<Answer> {
  const { load, repeats } = scenario
  const { keys, expect } = loads[load]
  if (repeats === undefined) {
    if (load !== 'unknown') {
      for (const key of keys) equal((await ask(key)).status, 200, 'the one request')
    }
    if (load === 'banned') {
      for (const key of keys) await untilBanned(() => ask(key))
    }
  }
  const answer = await ask(keys[0] ?? '')
  const { status, partOfBody = '' } = expect
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
    if (body.includes('api_key_banned')) return
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
  const order = loadFor(scenario, subject)
  const isBig = order.uploadBytes ?? order.expect.bodyBytes
  const requests = isBig ? order.connections : burstRequests
  await runLoad(world.processes, { ...order, length: { requests } })
  const seen = await world.backend.ask<BackendReport>('report')
  const served = load === 'served' ? requests : 0
  const clients = Math.min(served, order.keys.length)
  equal(seen.requests, served, 'requests seen by the backend')
  equal(seen.clients, clients, 'distinct clients seen by the backend')
  equal(seen.identified, job === 'limits' ? served : 0, 'X-Client-Id seen by the backend')
  equal(seen.credentials, job === 'limits' ? 0 : served, 'keys seen by the backend')
  if (load === 'exhausted' && subject.admin !== undefined) {
    // The first 429 of a key is none.
    ok((await strikes()) - strikesBefore >= burstRequests - keyCount, 'each refusal is a strike')
  }
}

function header({ headers }: Answer, name: string): string {
  return headers.find(([field = '']) => field.toLowerCase() === name)?.[1] ?? ''
}

async function askOnce({ ports, over }: Omit<LoadOrder, 'length'>, key: string): Promise<Answer> {
  const asker = openAsker(ports[0] ?? 0, { isSecure: over !== undefined })
  const answer = await asker.ask(requestHead(requestPath, { key }))
  asker.close()
  if (typeof answer === 'string') throw new Error(answer)
  const { status, head, body } = answer
  const [, ...lines] = head.split('\r\n')
  const headers = lines.map((line) => line.split(/: *(.*)/, 2))
  const own = /^(?:date|connection|keep-alive)$/i
  return { status, headers: headers.filter(([name = '']) => !own.test(name)), body }
}
