/** Bans for strikes, with gateways on one Redis or on a file; operator-bans.test.ts has those of several processes. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import { StoreClock } from '../../src/state/store-clock.ts'
import { minuteWithAtLeast } from '../support/gateway.ts'
import { temporaryFolder } from '../support/processes.ts'
import { sharedRedis } from '../support/redis-server.ts'
import { clientsBlock, configFile, decided, eventually, gatewayHere } from './gateways.ts'
import { quotaInRedis, startRawBackend, startRedisServer, storeOn } from './gateways.ts'
import type { Answer, Gateway } from './gateways.ts'

const [hammering, calm] = ['tg_hammering_key', 'tg_calm_key']
const strikes = 5

const clients = (perMinute: number): string =>
  clientsBlock([{ id: 'acme', keys: [hammering, calm], perMinute, perDay: 1000 }])
const bans = (duration: string): string =>
  `bans: { strikes: ${strikes}, within: 10s, grace: 0s, duration: ${duration}, growth: 1 }`

/** Goes on after the 429 until the key is banned; returns all answers, the ban last. */
async function hammer(gateway: Gateway): Promise<Answer[]> {
  const answers: Answer[] = []
  await eventually('a ban', async () => {
    const answer = await gateway.call(hammering)
    answers.push(answer)
    // A store that was late just before leaves unsaid where the client stands.
    return answer.code === 'api_key_banned' && answer.headers.has('ratelimit')
  })
  return answers
}

const isBanned = async (gateway: Gateway, key = hammering): Promise<boolean> =>
  (await gateway.call(key)).code === 'api_key_banned'

describe('a key that goes on after its 429', () => {
  it('is banned, at every gateway, and hears for how long', async () => {
    const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
    const store = storeOn(redis)
    const file = configFile(backend.url, { store, clients: clients(3), bans: bans('300s') })
    const [one, other] = [await gatewayHere(file), await gatewayHere(file)]
    // Known to the other one before there is anything to know.
    expect((await decided(() => other.call(calm))).status).toBe(200)
    await minuteWithAtLeast()
    const answers = await hammer(one)
    // The first 429 is no strike; those after it are, up to the one that brings the ban.
    const refused = answers.filter(({ code }) => code === 'rate_limit_exceeded')
    expect(refused.length).toBeGreaterThanOrEqual(strikes + 1)
    const ban = answers.at(-1)
    expect(ban?.status).toBe(429)
    const header = (name: string): string => ban?.headers.get(name) ?? ''
    expect(Number(header('retry-after'))).toBeGreaterThan(240)
    expect(Number(header('retry-after'))).toBeLessThanOrEqual(300)
    expect([header('x-ratelimit-remaining'), header('x-ratelimit-limit')]).toEqual(['0', '3'])
    // The day has quota left, and says so; the wait is that of the ban.
    expect(header('ratelimit')).toMatch(/^"minute";r=0;t=\d+, "day";r=99[67];t=\d+$/)
    expect(header('ratelimit-policy')).toBe('"minute";q=3;w=60, "day";q=1000;w=86400')
    expect(Number(header('x-ratelimit-reset')) - Date.now() / 1000).toBeGreaterThan(240)
    await eventually('the log line', () => one.logged('keyBanned').length > 0)
    const [line] = one.logged('keyBanned')
    expect(line).toMatchObject({ client: 'acme', key: 'acme-1' })
    // One more where the answer of the store to the one before it was late.
    expect(line?.['strikes']).toBeGreaterThanOrEqual(strikes)
    expect(await one.metric('tollgate_bans_total')).toBe(1)
    expect(await one.metric('tollgate_banned_keys')).toBe(1)

    await eventually('the ban there', () => isBanned(other))
    const atBackend = backend.requests.length
    expect((await decided(() => other.call(calm))).code).toBe('rate_limit_exceeded')
    expect(await isBanned(other, calm)).toBe(false)
    expect(backend.requests).toHaveLength(atBackend)

    await one.stop()
    const third = await gatewayHere(file)
    const bothBan = async () => [await isBanned(other), await isBanned(third)]
    // A start does not wait for a store that is late.
    await eventually('the ban in the third', () => isBanned(third))
    redis.freeze()
    expect(await bothBan()).toEqual([true, true])
    redis.thaw()
    await redis.kill()
    expect(await bothBan()).toEqual([true, true])
    await redis.restart()
    await eventually('the ban back in Redis', () => redis.cli('HLEN', 'tollgate:bans') === '1')
    // One that was born after the loss knows it too, but not where the client stands.
    let unaware: Answer
    do unaware = await (await gatewayHere(file)).call(hammering)
    while (unaware.code !== 'api_key_banned')
    expect(unaware.headers.get('ratelimit')).toBeNull()
    expect(unaware.headers.get('x-ratelimit-remaining')).toBe('0')
  })

  it('finds its quota untouched when the ban ends, and its sister key never was banned', async () => {
    const [redis, backend] = [sharedRedis(), await startRawBackend()]
    // Without leases Redis has every count to the very request; what a busy machine holds up is not admitted without it.
    const store = storeOn(redis, 'lease: off, onOutage: closed')
    const start = (perMinute: number) =>
      gatewayHere(configFile(backend.url, { store, clients: clients(perMinute), bans: bans('5s') }))
    // The same client under a limit that it has not used up shows what a ban alone does.
    const [narrow, wide] = [await start(3), await start(500)]
    await minuteWithAtLeast()
    const beforeMs = performance.now()
    await hammer(narrow)
    expect(quotaInRedis(redis, 'acme').dayUsed).toBe(3)
    await eventually('the ban there', () => isBanned(wide))
    const sister = await decided(() => wide.call(calm))
    expect(sister.status).toBe(200)
    expect(sister.headers.get('ratelimit')).toMatch(/"minute";r=49[0-6];/)
    for (let calls = 0; calls < 3; calls++) expect(await isBanned(wide)).toBe(true)
    expect(quotaInRedis(redis, 'acme').dayUsed).toBe(4)
    // A 503 of a store that is late is no end of it.
    const isAdmitted = async () => (await wide.call(hammering)).status === 200
    await eventually('the end of the ban', isAdmitted)
    expect(performance.now() - beforeMs).toBeGreaterThan(4_900)
    // That call was the fifth that was admitted, and nothing else was charged.
    expect(backend.requests).toHaveLength(5)
    const after = await decided(() => wide.call(hammering))
    expect(after.headers.get('ratelimit')).toMatch(/"minute";r=494;t=\d+, "day";r=994;/)
    expect(quotaInRedis(redis, 'acme')).toMatchObject({ dayTaken: 6, dayUsed: 6 })
  })

  it('stays banned over a restart without Redis, if store.file is given', async () => {
    const backend = await startRawBackend()
    const config = configFile(backend.url, {
      store: `store: { redis: "", file: "${join(temporaryFolder(), 'state', 'bans.db')}" }`,
      clients: clients(3),
      bans: bans('300s'),
    })
    const first = await gatewayHere(config)
    await hammer(first)
    await first.stop()
    const second = await gatewayHere(config)
    expect([await isBanned(second), await isBanned(second, calm)]).toEqual([true, false])
    // The counters are in this very process; what it has answered a moment ago is good for a second.
    await eventually('its standing', async () =>
      /^"minute";r=\d;t=\d+, "day";r=\d+;t=\d+$/.test(
        (await second.call(hammering)).headers.get('ratelimit') ?? '',
      ),
    )
  })
})

it('the time of the store, by which bans end, is learned with each call for quota', async () => {
  const { url } = await startRawBackend()
  const store = storeOn(sharedRedis(), 'lease: off')
  const gateway = await gatewayHere(configFile(url, { store, clients: clients(100) }))
  const learned = vi.spyOn(StoreClock.prototype, 'set')
  try {
    for (let calls = 0; calls < 9; calls++)
      expect((await decided(() => gateway.call(calm))).status).toBe(200)
    // It is learned with the bans as well, which are read twice a minute.
    expect(learned.mock.calls.length).toBeGreaterThanOrEqual(9)
  } finally {
    learned.mockRestore()
  }
})

it('a client that waits for Retry-After is admitted then, and never gets a strike', async () => {
  const backend = await startRawBackend()
  const gateway = await gatewayHere(
    configFile(backend.url, {
      clients: clients(3),
      bans: 'bans: { strikes: 1, within: 10s, grace: 0s, duration: 60s }',
    }),
  )
  // By its clock a minute ends in three seconds; where the machine is too busy for so few requests in it, the next one.
  const realNow = Date.now
  const aheadMs = 57_000 - (realNow() % 60_000)
  vi.spyOn(Date, 'now').mockImplementation(() => realNow() + aheadMs)
  try {
    const ask = () => decided(() => gateway.call(hammering))
    let refused: Answer
    do refused = await ask()
    while (refused.status === 200)
    expect(refused.code).toBe('rate_limit_exceeded')
    const seconds = Number(refused.headers.get('retry-after'))
    expect(seconds).toBeLessThanOrEqual(61)
    await sleep(seconds * 1_000)
    expect((await ask()).status).toBe(200)
    for (const name of ['strikes', 'bans'])
      expect(await gateway.metric(`tollgate_${name}_total`)).toBe(0)
  } finally {
    vi.restoreAllMocks()
  }
})
