/** A gateway and an explanation agree on every request, code and numbers: what is explained before it is sent is what it is answered. */
import { once } from 'node:events'
import { Agent, createServer, request as send, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import * as fc from 'fast-check'
import { expect } from 'vitest'
import type { Explanation } from '../../../src/insight/api/explain.ts'
import type { BanRecord } from '../../../src/state/bans.ts'
import { explain } from '../../../src/server/gateway/explaining.ts'
import { askAdmin } from '../../support/admin-client.ts'
import { weighted, type Drawn } from '../../support/drawn.ts'
import { keys, sha256, startTestGateway, type TestGateway } from '../../support/gateway.ts'
import { readBlocks } from '../../support/serving.ts'
import { words } from '../../support/words.ts'

const REQUESTS = 40

const backend = createServer((request, response) =>
  request.resume().on('end', () => response.end('ok')),
)
const agent = new Agent({ keepAlive: true, maxSockets: 1 })

const limits = fc
  .tuple(fc.integer({ min: 1, max: 8 }), fc.integer({ min: 0, max: 8 }))
  .map(([perMinute, more]) => `{ perMinute: ${perMinute}, perDay: ${perMinute + more} }`)
const HOUR = 3_600_000
const iso = (ms: number): string => new Date(Date.now() + ms).toISOString()
const deprecated = fc.constantFrom(
  '',
  ', deprecated: { since: 2025-01-01, sunset: 2030-01-01 }',
  ', deprecated: { since: 2025-01-01, sunset: 2026-01-01, afterSunset: gone }',
  `, deprecated: { since: 2025-01-01, brownouts: [{ from: "${iso(-HOUR)}", to: "${iso(24 * HOUR)}", share: 100% }] }`,
  `, deprecated: { since: 2025-01-01, brownouts: [{ from: "${iso(-HOUR)}", to: "${iso(24 * HOUR)}", share: 50% }] }`,
)
const configuration = fc.record({
  basePath: fc.constantFrom('', 'basePath: /v1, '),
  sizes: fc.constantFrom('', 'limits: { bodyBytes: 16B, urlBytes: 64B, headerCount: 12 }, '),
  structured: fc.boolean(),
  plans: fc.tuple(limits, limits),
  anonymous: fc.integer({ min: 1, max: 6 }),
  unmatched: fc.constantFrom('forward', 'reject'),
  cors: fc.constantFrom('', 'cors: { origins: ["https://a.example"] }'),
  routes: fc.tuple(deprecated, deprecated),
})
/** The first one mostly, so that most requests come as far as to the last stages. */
const mostly = <One>(...[usual, ...others]: readonly One[]) =>
  weighted([9, fc.constant(usual as One)], [5, fc.constantFrom(...others)])
const asked = fc.record({
  method: mostly('GET', 'POST', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE'),
  target: mostly(...words(`/pets /pets/7 /none /../x /%zz /${'a'.repeat(70)} // /pets?q=1`)),
  isBased: fc.integer({ min: 0, max: 9 }).map((one) => one > 0),
  credential: mostly(
    ...words('pro free free business expired'),
    'Bearer x',
    'Basic x',
    'none',
    'bare',
  ),
  more: mostly<readonly string[]>(
    [],
    ['Origin', 'https://a.example', 'Access-Control-Request-Method', 'GET'],
    ['Content-Length', '20'],
    ['Host', 'another'],
    Array.from({ length: 24 }, (_, at) => `X-${at}`),
  ),
})
type Asked = Drawn<typeof asked>

const valueOf = { pro: keys.pro, free: keys.free, business: keys.business, expired: keys.expired }
function headersOf({ credential, more }: Asked): string[] {
  const headers = ['Host', 'gateway', ...more]
  if (credential === 'none') return headers
  if (credential === 'bare') return [...headers, 'Authorization', keys.pro]
  const token = (valueOf as Partial<Record<string, string>>)[credential]
  return [...headers, 'Authorization', token === undefined ? credential : `Bearer ${token}`]
}

async function answerOf({ port }: TestGateway, method: string, path: string, headers: string[]) {
  const sent = send({ port, host: '127.0.0.1', agent, method, path, headers })
  // What is refused unread may be cut off after the answer.
  sent.on('error', () => undefined)
  sent.end(headers.includes('Content-Length') ? 'x'.repeat(20) : undefined)
  const [answer] = (await once(sent, 'response')) as [IncomingMessage]
  return { answer, body: await text(answer).catch(() => '') }
}

const seen = new Map<string, number>()

/** The gateway's wait is rounded up from fractions of a ms. */
const EDGE_MS = 2
/** The answer to a banned key is made anew once a second, however often it asks. */
const KEPT_MS = 1_000
/** The gateway spends nothing so close to the end of a minute that it may be over. */
const GUARD_MS = 50

function isItsWait({ retryAfterSeconds, at }: Explanation, wait: string | undefined): boolean {
  const ageMs = Date.now() - Date.parse(at)
  const late = (retryAfterSeconds ?? 0) - Number(wait ?? 0)
  const isAtEdge = new Date(at).getMilliseconds() <= EDGE_MS
  return late >= (isAtEdge ? -1 : 0) && late <= Math.ceil(ageMs / 1000)
}

/** Of what the gateway answered, all that an explanation tells of it. earlier: other explanations for the same gateway, and when they were answered. */
function compare(
  told: Explanation,
  earlier: readonly (readonly [Explanation, answeredMs: number])[],
  { answer, body }: Awaited<ReturnType<typeof answerOf>>,
) {
  const code = /"code":"(\w+)"/.exec(body)?.[1] ?? null
  expect(answer.statusCode).toBe(told.status ?? 200)
  if (answer.statusCode !== 200 && told.method !== 'HEAD') expect(told.code).toBe(code)
  const wait = answer.headers['retry-after']
  expect(wait === undefined).toBe(told.retryAfterSeconds === null)
  const kept = earlier.filter(
    ([one, answeredMs]) =>
      told.code === 'api_key_banned' &&
      one.code === told.code &&
      Date.parse(told.at) - answeredMs < KEPT_MS,
  )
  const isOne = [told, ...kept.map(([one]) => one)].some((one) => isItsWait(one, wait))
  expect(isOne, `${wait} of ${JSON.stringify(told)}`).toBe(true)
  const numbers = told.stages.find(({ stage }) => stage === 'take-quota')?.numbers ?? {}
  const left = /"minute";r=(\d+);t=\d+, "day";r=(\d+)/.exec(String(answer.headers['ratelimit']))
  if (left !== null && 'minuteUsed' in numbers)
    for (const [at, window] of (['minute', 'day'] as const).entries())
      expect(Number(numbers[`${window}Limit`]) - Number(numbers[`${window}Used`])).toBe(
        Number(left[at + 1]),
      )
  const key = `${told.decidedBy} ${told.code}`
  seen.set(key, (seen.get(key) ?? 0) + 1)
}

async function check(by: Drawn<typeof configuration>, requests: readonly Asked[]) {
  const upstreams = [`http://127.0.0.1:${(backend.address() as AddressInfo).port}`]
  const [pro, free] = by.plans
  const blocks = {
    server: `server: { listen: "127.0.0.1:0", ${by.basePath}${by.sizes}structuredQuotaHeaders: ${by.structured} }`,
    plans: `plans: { pro: ${pro}, free: ${free}, business: ${pro}, enterprise: { custom: true } }`,
    clients: `clients:
  - { id: f, plan: free, keys: [{ id: free-1, sha256: ${sha256(keys.free)} }, { id: free-old, sha256: ${sha256(keys.expired)}, expires: 2020-01-01 }] }
  - { id: p, plan: pro, keys: [{ id: pro-1, sha256: ${sha256(keys.pro)} }, { id: banned, sha256: ${sha256(keys.business)} }] }`,
    anonymous: `anonymous: { perMinute: ${by.anonymous} }`,
    unmatched: `unmatched: ${by.unmatched}`,
    bans: 'bans: { strikes: 1000000 }',
    ...(by.cors !== '' && { cors: by.cors }),
    routes: `routes:\n  - { name: list, match: GET /pets${by.routes[0]} }\n  - { name: one, match: "GET /pets/{petId}"${by.routes[1]} }`,
  }
  const config = readBlocks(upstreams, blocks)
  const gateway = await startTestGateway({ upstreams, blocks })
  try {
    const admin = `http://127.0.0.1:${gateway.adminPort}`
    const { body } = await askAdmin(admin, 'PUT /api/bans/banned', { for: '1h' })
    const { since } = body['after'] as { since: string }
    const ban: BanRecord = {
      startedMs: Date.parse(since),
      // What is told of its end is a whole second.
      untilMs: Date.parse(since) + HOUR,
      count: 0,
      by: 'operator',
    }
    const minute = Math.floor(Date.now() / 60_000)
    const used = new Map<string, number>()
    let anonymousUsed = 0
    const earlier: [Explanation, number][] = []
    for (const one of requests) {
      const target = one.isBased && by.basePath !== '' ? `/v1${one.target}` : one.target
      const headers = headersOf(one)
      const atMs = Date.now()
      const told = await explain(
        config,
        { method: one.method, target, headers, atMs },
        {
          anonymousUsed,
          ofCaller: ({ clientId, keyId }) => {
            const own = used.get(clientId) ?? 0
            return { use: { minute: own, day: own }, ...(keyId === 'banned' && { ban }) }
          },
        },
      )
      const answered = await answerOf(gateway, one.method, target, headers)
      // All counts begin anew: the rest would be another test.
      if (Math.floor((Date.now() + GUARD_MS) / 60_000) !== minute) return
      compare(told, earlier, answered)
      earlier.push([told, Date.now()])
      if (told.charged) used.set(told.client ?? '', (used.get(told.client ?? '') ?? 0) + 1)
      if (told.decidedBy === 'authenticate') anonymousUsed += 1
    }
  } finally {
    await gateway.stop()
  }
}

/** Of so many random configurations; each is asked 40 requests. */
export async function agreeOn(configurations: number, seed?: number): Promise<void> {
  const requests = fc.array(asked, { minLength: REQUESTS, maxLength: REQUESTS })
  const runs = { numRuns: configurations, endOnFailure: true, ...(seed !== undefined && { seed }) }
  await once(backend.listen(0, '127.0.0.1'), 'listening')
  try {
    await fc.assert(fc.asyncProperty(configuration, requests, check), runs)
  } finally {
    agent.destroy()
    backend.close()
  }
  expect(seen.size).toBeGreaterThan(10)
}
