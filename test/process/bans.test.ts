import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { minuteWithAtLeast } from '../support/gateway.ts'
import { temporaryFolder } from '../support/processes.ts'
import {
  clientsBlock,
  configFile,
  decided,
  endAll,
  eventually,
  gatewayProcess,
  quotaInRedis,
  rawBackend,
  redisServer,
  type Answer,
  type GatewayProcess,
} from './gateways.ts'

afterAll(endAll)

const [hammering, calm] = ['tg_hammering_key', 'tg_calm_key']
const strikes = 5

const clients = (perMinute: number): string =>
  clientsBlock([{ id: 'acme', keys: [hammering, calm], perMinute, perDay: 1000 }])
const bans = (duration: string): string =>
  `bans: { strikes: ${strikes}, within: 10s, grace: 0s, duration: ${duration}, growth: 1 }`

/** Goes on after the 429 until the key is banned; returns all answers, the ban last. */
async function hammer(gateway: GatewayProcess): Promise<Answer[]> {
  const answers: Answer[] = []
  await eventually('a ban', async () => {
    answers.push(await gateway.call(hammering))
    return answers.at(-1)?.code === 'api_key_banned'
  })
  return answers
}

const isBanned = async (gateway: GatewayProcess, key = hammering): Promise<boolean> =>
  (await gateway.call(key)).code === 'api_key_banned'

describe.concurrent('a key that goes on after its 429', () => {
  it('is banned, on every process, and hears for how long', async () => {
    const [redis, backend] = await Promise.all([redisServer(), rawBackend()])
    const store = `store: { redis: "${redis.url}" }`
    const file = configFile(backend.url, { store, clients: clients(3), bans: bans('300s') })
    const [one, other] = await Promise.all([gatewayProcess(file), gatewayProcess(file)])
    // Known to the other process before there is anything to know.
    expect((await decided(() => other.call(calm))).status).toBe(200)
    await minuteWithAtLeast(30_000)
    const answers = await hammer(one)
    // The first 429 is no strike; those after it are, up to the one that brings the ban.
    const refused = answers.filter(({ code }) => code === 'rate_limit_exceeded')
    expect(refused.length).toBeGreaterThanOrEqual(strikes + 1)
    const ban = answers.at(-1)
    expect(ban?.status).toBe(429)
    expect(Number(ban?.headers.get('retry-after'))).toBeGreaterThan(240)
    expect(Number(ban?.headers.get('retry-after'))).toBeLessThanOrEqual(300)
    expect(ban?.headers.get('x-ratelimit-remaining')).toBe('0')
    expect(ban?.headers.get('x-ratelimit-limit')).toBe('3')
    // The day has quota left, and says so; the wait is that of the ban.
    expect(ban?.headers.get('ratelimit')).toMatch(/^"minute";r=0;t=\d+, "day";r=99[67];t=\d+$/)
    expect(ban?.headers.get('ratelimit-policy')).toBe('"minute";q=3;w=60, "day";q=1000;w=86400')
    const resetInSeconds = Number(ban?.headers.get('x-ratelimit-reset')) - Date.now() / 1000
    expect(resetInSeconds).toBeGreaterThan(240)
    await eventually('the log line', () => one.logged('keyBanned').length > 0)
    expect(one.logged('keyBanned')).toMatchObject([{ client: 'acme', key: 'acme-1', strikes }])
    expect(await one.metric('tollgate_bans_total')).toBe(1)
    expect(await one.metric('tollgate_banned_keys')).toBe(1)

    // A second is promised; on a busy machine the calls that ask for it take their time too.
    let slowestMs = 0
    const heardMs = await eventually('the ban there', async () => {
      const { code, tookMs } = await other.call(hammering)
      slowestMs = Math.max(slowestMs, tookMs)
      return code === 'api_key_banned'
    })
    expect(heardMs).toBeLessThan(1_500 + 5 * slowestMs)
    const atBackend = backend.requests.length
    expect((await decided(() => other.call(calm))).code).toBe('rate_limit_exceeded')
    expect(await isBanned(other, calm)).toBe(false)
    expect(backend.requests).toHaveLength(atBackend)

    // Restarts of both, one in order and one not.
    one.signal('SIGTERM')
    other.signal('SIGKILL')
    await Promise.all([one.finished, other.finished])
    const [third, fourth] = await Promise.all([gatewayProcess(file), gatewayProcess(file)])
    expect([await isBanned(third), await isBanned(fourth)]).toEqual([true, true])

    redis.freeze()
    expect([await isBanned(third), await isBanned(fourth)]).toEqual([true, true])
    redis.thaw()
    await redis.kill()
    expect([await isBanned(third), await isBanned(fourth)]).toEqual([true, true])
    await redis.restart()
    await eventually('the ban back in Redis', () => redis.cli('HLEN', 'tollgate:bans') === '1')
    // A process that was born after the loss knows it too, but not where the client stands.
    const unaware = await (await gatewayProcess(file)).call(hammering)
    expect(unaware.code).toBe('api_key_banned')
    expect(unaware.headers.get('ratelimit')).toBeNull()
    expect(unaware.headers.get('x-ratelimit-remaining')).toBe('0')
  })

  it('finds its quota untouched when the ban ends, and its sister key never was banned', async () => {
    const [redis, backend] = await Promise.all([redisServer(), rawBackend()])
    // Without leases Redis has every count to the very request; what a busy machine holds up is not admitted without it.
    const store = `store: { redis: "${redis.url}", lease: off, onOutage: closed }`
    const start = (perMinute: number): Promise<GatewayProcess> =>
      gatewayProcess(
        configFile(backend.url, { store, clients: clients(perMinute), bans: bans('12s') }),
      )
    // The same client under a limit that it has not used up shows what a ban alone does.
    const [narrow, wide] = await Promise.all([start(3), start(500)])
    await minuteWithAtLeast(35_000)
    await hammer(narrow)
    const bannedAtMs = performance.now()
    const before = quotaInRedis(redis, 'acme')
    expect(before.dayUsed).toBe(3)
    await eventually('the ban there', () => isBanned(wide))
    const sister = await decided(() => wide.call(calm))
    expect(sister.status).toBe(200)
    expect(sister.headers.get('ratelimit')).toContain('"minute";r=496;')
    for (let calls = 0; calls < 10; calls++) expect(await isBanned(wide)).toBe(true)
    expect(quotaInRedis(redis, 'acme').dayUsed).toBe(4)
    await eventually('the end of the ban', async () => !(await isBanned(wide)))
    expect(performance.now() - bannedAtMs).toBeGreaterThan(10_500)
    // That call was the fifth that was admitted, and nothing else was charged.
    expect(backend.requests).toHaveLength(5)
    const after = await decided(() => wide.call(hammering))
    expect(after.headers.get('ratelimit')).toMatch(/"minute";r=494;t=\d+, "day";r=994;/)
    expect(quotaInRedis(redis, 'acme')).toMatchObject({ dayTaken: 6, dayUsed: 6 })
  })

  it('stays banned over a restart without Redis, if store.file is given', async () => {
    const backend = await rawBackend()
    const file = join(temporaryFolder(), 'state', 'bans.db')
    const config = configFile(backend.url, {
      store: `store: { redis: "", file: "${file}" }`,
      clients: clients(3),
      bans: bans('300s'),
    })
    const first = await gatewayProcess(config)
    await hammer(first)
    first.signal('SIGKILL')
    await first.finished
    const second = await gatewayProcess(config)
    expect(await isBanned(second)).toBe(true)
    second.signal('SIGTERM')
    expect((await second.finished).code).toBe(0)
    const third = await gatewayProcess(config)
    expect(await isBanned(third)).toBe(true)
    expect(await isBanned(third, calm)).toBe(false)
    // The counters are in this very process; what it has answered a moment ago is good for a second.
    await eventually('its standing', async () =>
      /^"minute";r=\d;t=\d+, "day";r=\d+;t=\d+$/.test(
        (await third.call(hammering)).headers.get('ratelimit') ?? '',
      ),
    )
  })
})

describe.concurrent('a client that waits for Retry-After', () => {
  it('is admitted then, and never gets a strike', async () => {
    const [redis, backend] = await Promise.all([redisServer(), rawBackend()])
    const file = configFile(backend.url, {
      store: `store: { redis: "${redis.url}" }`,
      clients: clients(3),
      bans: `bans: { strikes: 1, within: 10s, grace: 0s, duration: 60s }`,
    })
    const [one, other] = await Promise.all([gatewayProcess(file), gatewayProcess(file)])
    let waits = 0
    for (let calls = 0; calls < 12; calls++) {
      const gateway = calls % 2 === 0 ? one : other
      const answer = await decided(() => gateway.call(hammering))
      if (answer.status === 200) continue
      expect(answer.code).toBe('rate_limit_exceeded')
      if (waits === 1) break
      waits++
      const waitMs = Number(answer.headers.get('retry-after')) * 1000
      expect(waitMs).toBeLessThanOrEqual(61_000)
      await sleep(waitMs)
      expect((await decided(() => gateway.call(hammering))).status).toBe(200)
    }
    expect(waits).toBe(1)
    for (const gateway of [one, other]) {
      expect(await gateway.metric('tollgate_strikes_total')).toBe(0)
      expect(await gateway.metric('tollgate_bans_total')).toBe(0)
    }
  })
})
