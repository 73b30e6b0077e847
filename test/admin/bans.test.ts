/** Bans as operators see, impose and lift them; that all gateways obey is shown by test/process/operator-bans.test.ts. */
import { generateKeyPairSync } from 'node:crypto'
import { SignJWT } from 'jose'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { acted, type Refused } from '../../src/admin/answers.ts'
import { BanTable } from '../../src/core/bans/ban-table.ts'
import { createMemoryBanStore } from '../../src/state/bans.ts'
import { Counters } from '../../src/insight/usage/counters.ts'
import { askAdmin } from '../support/admin-client.ts'
import { startBacked } from '../support/backed.ts'
import { keys, minuteWithAtLeast } from '../support/gateway.ts'
import { temporaryFile } from '../support/processes.ts'

const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const issuer = 'https://id.example/'

const jwk = { ...publicKey.export({ format: 'jwk' }), alg: 'EdDSA', use: 'sig' }
const jwksFile = temporaryFile('jwks.json', JSON.stringify({ keys: [jwk] }))
const { gateway } = await startBacked({
  blocks: {
    plans:
      'plans: { free: { perMinute: 1, perDay: 1000 }, pro: { perMinute: 300, perDay: 10000 }, business: { perMinute: 1, perDay: 1000 }, enterprise: { custom: true } }',
    bans: 'bans: { strikes: 2, within: 1m, grace: 0s, duration: 2m, growth: 2 }',
    jwt: `jwt: { issuer: "${issuer}", audience: pets, jwksFile: "${jwksFile}", algorithms: [EdDSA] }`,
  },
})

const ask = (call: string, body?: unknown) =>
  askAdmin(`http://127.0.0.1:${gateway.adminPort}`, call, body)
const listed = async () => (await ask('GET /api/bans')).body['bans'] as Record<string, unknown>[]
const codeOf = async (key: string) => {
  const { code, status } = await gateway.ask('/v1/pets', { key })
  return code ?? status
}
/** To the second below: the end of a ban is told as the next full one. */
const lastsMs = (ban: unknown): number => {
  const { since, until } = ban as Record<string, string>
  return Math.floor((Date.parse(until ?? '') - Date.parse(since ?? '')) / 1_000) * 1_000
}

describe('a store that is away', () => {
  const away = () => Promise.reject(new Error('away'))
  it.each([
    [
      'before it was asked',
      { load: away, save: () => Promise.resolve() },
      /nothing was read or changed/,
    ],
    ['when it was asked', { load: async () => new Map(), save: away }, /not known whether/],
  ])('%s is told as what it means for an act', async (_, store, message) => {
    const bans = new BanTable({
      store: { ...createMemoryBanStore(), watch: () => undefined, ...store },
      forgetAfterMs: 60_000,
      clock: { nowMs: Date.now, at: (ownMs) => ownMs },
    })
    onTestFinished(() => bans.close())
    const [startedMs, untilMs] = [Date.now(), Date.now() + 60_000]
    bans.merge('pro-1', { startedMs, untilMs, count: 1 })

    const client = { id: 'acme', limits: { perMinute: 1, perDay: 1 } }
    const tell = () => store.load().then(() => undefined)
    const reset = new Counters({ announceReset: tell, attend: away }).reset(client, ['day'])
    for (const act of [bans.lift('pro-1'), reset] as Promise<unknown>[]) {
      const refused = (await acted(act).catch((error: unknown) => error)) as Refused
      const { status, body } = refused.answer
      expect([status, String(body)]).toEqual([503, expect.stringMatching(message)])
    }
  })
})

describe('an operator', () => {
  it('bans a key for as long as is asked, shortens and lengthens that, and lifts it; all of it is in the log', async () => {
    expect(await codeOf(keys.pro)).toBe(200)
    const put = async (wish: object) => (await ask('PUT /api/bans/pro-1', wish)).body
    const imposed = await put({ for: '1h', reason: 'scraping "all"' })
    expect(imposed).toMatchObject({ scope: 'store', key: 'pro-1', before: null })
    const own = { key: 'pro-1', client: 'pro-client', by: 'operator', reason: 'scraping "all"' }
    expect(imposed['after']).toMatchObject(own)
    expect(await codeOf(keys.pro)).toBe('api_key_banned')
    const [shorter, longer] = [await put({ for: '1m' }), await put({ for: '400d' })]
    expect(shorter['before']).toEqual(imposed['after'])
    expect([imposed, shorter, longer].map(({ after }) => lastsMs(after))).toEqual([
      3_600_000, 60_000, 34_560_000_000,
    ])
    const lifted = await ask('DELETE /api/bans/pro-1')
    expect(lifted.body).toMatchObject({ before: longer['after'], after: null })
    expect(await codeOf(keys.pro)).toBe(200)
    expect(gateway.lines('audit').filter(({ key }) => key === 'pro-1')).toMatchObject([
      { who: '127.0.0.1', action: 'ban', before: null, after: imposed['after'], status: 200 },
      { action: 'ban', before: imposed['after'], after: shorter['after'] },
      { action: 'ban', after: longer['after'] },
      { action: 'liftBan', before: longer['after'], after: null, status: 200 },
    ])
  })

  it('lifts a ban for strikes with all that led to it: its growth, its strikes and its first refusal', async () => {
    /** The answers up to the ban. */
    const hammer = async (): Promise<unknown[]> => {
      const answers: unknown[] = []
      while (answers.at(-1) !== 'api_key_banned') {
        answers.push(await codeOf(keys.free))
        // What is refused in the very ms of the first refusal is no strike.
        await sleep(2)
      }
      return answers
    }
    await minuteWithAtLeast()
    const first = await hammer()
    const [ban] = await listed()
    expect(ban).toMatchObject({ key: 'free-1', by: 'strikes', reason: '2 strikes in 1 s' })
    await ask('DELETE /api/bans/free-1')
    // The first refusal after it is no strike, and two more are needed, as if there had been none.
    expect(await hammer()).toEqual(first.slice(first.indexOf('rate_limit_exceeded')))
    expect(lastsMs((await listed())[0])).toBe(120_000)
    await ask('DELETE /api/bans/free-1')
    // A strike that was counted before an imposed ban is lifted counts no more.
    for (let calls = 0; calls < 2; calls++) await codeOf(keys.business)
    expect(await codeOf(keys.business)).toBe('rate_limit_exceeded')
    await ask('PUT /api/bans/business-1', { for: '1h' })
    await ask('DELETE /api/bans/business-1')
    for (let calls = 0; calls < 2; calls++)
      expect(await codeOf(keys.business)).toBe('rate_limit_exceeded')
  })

  it('bans and frees the bearer of tokens', async () => {
    const token = await new SignJWT({ plan: 'pro' })
      .setProtectedHeader({ alg: 'EdDSA' })
      .setIssuer(issuer)
      .setAudience('pets')
      .setSubject('someone@example')
      .setExpirationTime('5m')
      .sign(privateKey)
    expect(await codeOf(token)).toBe(200)
    const call = '/api/bans/jwt:someone%40example'
    const imposed = await ask(`PUT ${call}`, { for: '1m' })
    expect(imposed.body['after']).toMatchObject({ client: 'someone@example' })
    expect(await codeOf(token)).toBe('api_key_banned')
    await ask(`DELETE ${call}`)
    expect(await codeOf(token)).toBe(200)
  })

  it('is told what is wrong with what it asks, and nothing changes', async () => {
    for (const [call, status, code] of [
      ['PUT /api/bans/nobody', 404, 'unknown_key'],
      ['DELETE /api/bans/nobody', 404, 'unknown_key'],
      ['DELETE /api/bans/enterprise-1', 404, 'not_banned'],
      ['DELETE /api/bans/jwt:nobody', 404, 'not_banned'],
      ['POST /api/bans/enterprise-1', 405, 'method_not_allowed'],
    ] as const) {
      const body = call.startsWith('PUT') ? { for: '1h' } : undefined
      expect((await ask(call, body)).coded, call).toEqual([status, code])
    }
    for (const wish of [
      undefined,
      {},
      { for: '0s' },
      { for: '401d' },
      { for: '1h', reason: '' },
      { for: '1h', reason: 'two\nlines' },
      { for: '1h', reason: 'turned\u202Eround' },
      { for: '1h', reason: 'x'.repeat(201) },
      { for: '1h', until: 'noon' },
    ])
      expect((await ask('PUT /api/bans/enterprise-1', wish)).coded, JSON.stringify(wish)).toEqual([
        400,
        'invalid_request',
      ])
    expect((await listed()).filter(({ key }) => key === 'enterprise-1')).toEqual([])
    expect(await codeOf(keys.enterprise)).toBe(200)
  })
})
