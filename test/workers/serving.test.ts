import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { minuteWithAtLeast } from '../support/gateway.ts'
import { temporaryFolder } from '../support/processes.ts'
import { rawExchange } from '../support/raw-client.ts'
import { freePort } from '../support/redis-server.ts'
import {
  configFile,
  decided,
  endAll,
  eventually,
  gatewayProcess,
  quotaInRedis,
  rawBackend,
  redisServer,
  times,
  tollgate,
  type GatewayProcess,
} from '../process/gateways.ts'
import { ask, codes, metricPage, workerBlocks, workerPids, workersThatAnswered } from './workers.ts'

afterAll(endAll)

/** Of the day, so that no minute ends meanwhile. */
const acme = { id: 'acme', keys: ['tg_acme'], perMinute: 100, perDay: 100 }
/** No admission but by the store. */
const closed = 'timeout: 110ms, onOutage: closed'
const wide = { id: 'wide', keys: ['tg_wide'], perMinute: 100_000 }

async function start(...blocks: Parameters<typeof workerBlocks>) {
  const backend = await rawBackend()
  const gateway = await gatewayProcess(configFile(backend.url, workerBlocks(...blocks)))
  return { backend, gateway }
}

/** Stops the processes again and again, and lets them run for a moment each time, until `work` is done. */
async function stopped(pids: readonly number[], work: () => Promise<unknown>): Promise<void> {
  const over = new AbortController()
  const stop = async (): Promise<void> => {
    while (!over.signal.aborted) {
      for (const pid of pids) process.kill(pid, 'SIGSTOP')
      await sleep(250)
      for (const pid of pids) process.kill(pid, 'SIGCONT')
      await sleep(25)
    }
  }
  const stopping = stop()
  await work().finally(() => over.abort())
  await stopping
}

/** What the gateway decides, as a client gets it that comes back after a 503. */
const ruling = (gateway: GatewayProcess, key: string) => decided(() => ask(gateway.origin, { key }))

/** Each of so many workers has answered; the calls need a key that is not limited by them. */
async function allAnswer(gateway: GatewayProcess, workers: number): Promise<number> {
  let calls = 0
  await eventually('an answer of each worker', async () => {
    const answers = await Promise.all(times(10, () => ruling(gateway, 'tg_wide')))
    calls += answers.length
    expect(codes(answers)).toEqual({ '200': 10 })
    return workersThatAnswered(gateway).size === workers
  })
  return calls
}

describe('workers whose token issuer is away', () => {
  it('say so in the one readiness of all, which stays ready for API keys', async () => {
    const backend = await rawBackend()
    const jwksUri = `http://127.0.0.1:${await freePort()}/jwks.json`
    const gateway = await gatewayProcess(
      configFile(backend.url, {
        ...workerBlocks(2, [acme]),
        jwt: `jwt: { issuer: "https://id.example/", audience: a, jwksUri: "${jwksUri}", algorithms: [ES256] }`,
      }),
    )
    const ready = await fetch(`${gateway.adminOrigin}/readyz`)
    expect(ready.status).toBe(200)
    expect(((await ready.json()) as { checks: object[] }).checks).toContainEqual({
      name: 'credentials',
      ok: true,
      reason: 'no key set yet, API keys only',
      warning: expect.stringContaining('ECONNREFUSED') as string,
    })
  })
})

describe('workers whose event loops are late', () => {
  it('say so in the one readiness of all, which ends only when all refuse everything', async () => {
    const server = ', overload: { lag: 40ms }'
    const backend = await rawBackend()
    const gateway = await gatewayProcess(
      configFile(backend.url, workerBlocks(2, [acme], { server })),
    )
    const [first = NaN, second = NaN] = workerPids(gateway).values()
    const load = async () => {
      const answer = await fetch(`${gateway.adminOrigin}/readyz`)
      const { checks } = (await answer.json()) as { checks: { name: string; reason: string }[] }
      const reason = checks.find(({ name }) => name === 'load')?.reason ?? ''
      return `${answer.status} ${/\d of \d/.exec(reason)?.[0] ?? reason}`
    }
    const seen = (what: string) => eventually(what, async () => (await load()) === what)
    await stopped([first], () => seen('200 1 of 2'))
    await stopped([first, second], () => seen('503 2 of 2'))
    await seen('200 in time')
    expect(gateway.logged('shedding').at(-1)).toMatchObject({ refused: 'nothing', level: 'info' })
  })
})

// One after the other: processes that starve each other of the processor would look like a store that is away.
describe('workers on one port', () => {
  it('all answer, one page of metrics sums them, and each log line is whole and says who wrote it', async () => {
    const { gateway, backend } = await start(3, [wide])
    expect(new Set(workerPids(gateway).keys())).toEqual(new Set([1, 2, 3]))
    const calls = await allAnswer(gateway, 3)
    const page = await metricPage(gateway)
    const requests =
      'tollgate_requests_total{route="listPets",plan="enterprise",method="GET",status="2xx"}'
    expect(page.get(requests)).toBe(calls)
    expect(backend.requests).toHaveLength(calls)
    expect(page.get('tollgate_request_duration_seconds_count{route="listPets"}')).toBe(calls)
    expect(page.get('tollgate_workers')).toBe(3)
    expect(page.get('tollgate_worker_restarts_total')).toBe(0)
    expect(page.get('tollgate_store_up')).toBe(1)
    expect(page.get('tollgate_requests_in_flight')).toBe(0)
    const builds = [...page].filter(([name]) => name.startsWith('tollgate_build_info'))
    expect(builds).toHaveLength(1)
    expect(builds[0]?.[1]).toBe(1)
    const ready = (await (await fetch(`${gateway.adminOrigin}/readyz`)).json()) as object
    expect(ready).toMatchObject({
      checks: [
        {},
        { ok: true, reason: '3 of 3 workers' },
        { reason: 'in time' },
        { reason: 'embedded' },
        { reason: 'API keys' },
        {},
      ],
    })
    const served = () => gateway.logged('access').filter(({ status }) => status === 200)
    await eventually('the lines of all calls', () => served().length === calls)
    gateway.signal('SIGTERM')
    const { code, stderr, stdout } = await gateway.finished
    expect(code).toBe(0)
    expect(stdout.trim().split('\n')).toHaveLength(2)
    const lines = stderr.trim().split('\n')
    for (const line of lines) expect(() => JSON.parse(line) as unknown, line).not.toThrow()
    expect(new Set(gateway.logged('drained').map(({ worker }) => worker))).toEqual(
      new Set([1, 2, 3]),
    )
  })

  it('keep lines whole when each writes more than a pipe takes at once', async () => {
    const { gateway } = await start(2, [wide])
    const path = `/v1/${'p'.repeat(450)}`
    const calls = times(1_500, (at) => at)
    const caller = async (): Promise<void> => {
      while (calls.pop() !== undefined) await ask(gateway.origin, { key: 'tg_wide', path })
    }
    await Promise.all(times(20, caller))
    gateway.signal('SIGTERM')
    const { stderr } = await gateway.finished
    for (const line of stderr.trim().split('\n'))
      expect(() => JSON.parse(line) as unknown, line).not.toThrow()
    expect(gateway.logged('access')).toHaveLength(1_500)
    expect(workersThatAnswered(gateway)).toEqual(new Set([1, 2]))
  })

  it('admit exactly the limit between them with the embedded store', async () => {
    const more = { store: `store: { ${closed} }` }
    const { gateway, backend } = await start(3, [acme, wide], { more })
    await allAnswer(gateway, 3)
    const before = backend.requests.length
    const answers = await Promise.all(times(300, () => ruling(gateway, 'tg_acme')))
    expect(codes(answers)).toEqual({ '200': 100, '429 rate_limit_exceeded': 200 })
    expect(backend.requests.length - before).toBe(100)
    for (const { status, headers } of answers)
      if (status === 429) expect(headers['x-ratelimit-remaining']).toBe('0')
    const page = await metricPage(gateway)
    expect(page.get('tollgate_quota_decisions_total{window="day",outcome="refused"}')).toBe(200)
  })

  it('admit exactly the limit between them with Redis', async () => {
    const redis = await redisServer()
    const store = `store: { redis: "${redis.url}", ${closed} }`
    const { gateway, backend } = await start(2, [acme, wide], { more: { store } })
    await allAnswer(gateway, 2)
    const before = backend.requests.length
    const answers = await Promise.all(times(300, () => ruling(gateway, 'tg_acme')))
    expect(codes(answers)).toEqual({ '200': 100, '429 rate_limit_exceeded': 200 })
    expect(backend.requests.length - before).toBe(100)
    gateway.signal('SIGTERM')
    expect((await gateway.finished).code).toBe(0)
    expect(quotaInRedis(redis, 'acme')).toMatchObject({ minuteTaken: 100, minuteUsed: 100 })
  })

  it('count requests without a credential together, and refuse from then on', async () => {
    const { gateway } = await start(2, [wide], {
      more: { anonymous: 'anonymous: { perMinute: 30 }' },
    })
    await minuteWithAtLeast(30_000)
    await allAnswer(gateway, 2)
    const firstTen = []
    for (let calls = 0; calls < 10; calls++) firstTen.push(await ask(gateway.origin))
    const left = firstTen.map(({ headers }) => Number(headers['x-ratelimit-remaining'] ?? NaN))
    const others = await Promise.all(times(60, () => ask(gateway.origin)))
    // One whose count came late is a 503, and may be counted all the same.
    const {
      '401 missing_api_key': counted = 0,
      '503 service_unavailable': late = 0,
      ...refused
    } = codes([...firstTen, ...others])
    expect(refused).toEqual({ '429 rate_limit_exceeded': 70 - counted - late })
    expect(counted).toBeLessThanOrEqual(30)
    expect(counted + late).toBeGreaterThanOrEqual(30)
    expect(late).toBeLessThan(10)
    if (late === 0) expect(left).toEqual(times(10, (at) => 29 - at))
    // A valid key from that address goes on unharmed.
    expect((await ruling(gateway, 'tg_wide')).status).toBe(200)

    // Refused while the count was asked for: not answered once more.
    const head = 'OPTIONS * HTTP/1.1\r\nHost: api\r\nTransfer-Encoding: chunked\r\n\r\n'
    const { responses } = await rawExchange(
      Number(new URL(gateway.origin).port),
      `${head}no chunk\r\n`,
    )
    expect(responses.map(({ status }) => status)).toEqual([400])
    await allAnswer(gateway, 2)
    expect(gateway.logged('internalError')).toEqual([])
  })

  it('are as many as the machine has cores with auto, and none but the process itself with 1', async () => {
    const [auto, single] = await Promise.all([start('auto', [wide]), start(1, [wide])])
    const cores = availableParallelism()
    expect(workerPids(auto.gateway).size).toBe(cores > 1 ? cores : 0)
    expect((await metricPage(auto.gateway)).get('tollgate_workers')).toBe(cores)
    expect(workerPids(single.gateway).size).toBe(0)
    expect((await metricPage(single.gateway)).get('tollgate_workers')).toBe(1)
    expect((await ruling(single.gateway, 'tg_wide')).status).toBe(200)
    expect(single.gateway.logged('access').every((line) => !('worker' in line))).toBe(true)
  })
})

describe('the demonstration with workers', () => {
  it('has the catalogue in the process that looks after them', async () => {
    const port = await freePort()
    const file = configFile(`http://127.0.0.1:${port}`, workerBlocks(2, [wide]))
    const demo = tollgate(['demo', '--config', file, '--db', 'pets.db'])
    const origin = new URL(await demo.listening('tollgate')).origin
    const answers = await Promise.all(
      times(20, () => decided(() => ask(origin, { key: 'tg_wide' }))),
    )
    expect(codes(answers)).toEqual({ '200': 20 })
    for (const { body } of answers) expect(JSON.parse(body)).toBeInstanceOf(Array)
    demo.signal('SIGTERM')
    expect((await demo.finished).code).toBe(0)
  })
})

describe('a ban with workers', () => {
  const strikes = 6
  const bans = `bans: { strikes: ${strikes}, within: 30s, grace: 0s, duration: 5m }`
  const narrow = { id: 'acme', keys: ['tg_hammering', 'tg_calm'], perMinute: 3, perDay: 3 }

  it('counts strikes over all of them, holds on all within a second, on new ones too, and over a restart', async () => {
    const backend = await rawBackend()
    const file = join(temporaryFolder(), 'tollgate.db')
    const config = configFile(
      backend.url,
      workerBlocks(2, [narrow, wide], { more: { bans, store: `store: { file: "${file}" }` } }),
    )
    const gateway = await gatewayProcess(config)
    await allAnswer(gateway, 2)
    const answers = []
    let answer
    do answers.push((answer = await ask(gateway.origin, { key: 'tg_hammering' })))
    while (answer.code !== 'api_key_banned' && answers.length < 200)
    expect(answer.code).toBe('api_key_banned')
    await eventually('the line of the ban', () => gateway.logged('keyBanned').length > 0)
    // The first 429 of a key at each worker is no strike; the sixth strike, wherever it came, brings the ban.
    const refused = answers.filter(({ code }) => code === 'rate_limit_exceeded')
    expect(refused.length).toBeGreaterThanOrEqual(strikes + 1)
    const bannedMs = performance.now()
    let slowestMs = 0
    await eventually('twenty bans in a row', async () => {
      const startedMs = performance.now()
      const row = await Promise.all(times(20, () => ask(gateway.origin, { key: 'tg_hammering' })))
      slowestMs = Math.max(slowestMs, performance.now() - startedMs)
      return row.every(({ code }) => code === 'api_key_banned')
    })
    // A second is promised; on a busy machine the calls that ask for it take their time too.
    expect(performance.now() - bannedMs).toBeLessThan(1_500 + 5 * slowestMs)
    expect((await ruling(gateway, 'tg_calm')).code).toBe('rate_limit_exceeded')
    expect(gateway.logged('keyBanned')).toHaveLength(1)
    const page = await metricPage(gateway)
    expect(page.get('tollgate_strikes_total')).toBeGreaterThanOrEqual(strikes)
    expect(page.get('tollgate_bans_total')).toBe(1)
    expect(page.get('tollgate_banned_keys')).toBe(1)

    // A worker that begins anew has no memory of its own.
    const pids = workerPids(gateway)
    process.kill(pids.get(1) ?? 0, 'SIGKILL')
    await eventually('the new worker', () => workerPids(gateway).get(1) !== pids.get(1))
    for (const { code } of await Promise.all(
      times(20, () => ask(gateway.origin, { key: 'tg_hammering' })),
    ))
      expect(code).toBe('api_key_banned')

    gateway.signal('SIGTERM')
    expect((await gateway.finished).code).toBe(0)
    const next = await gatewayProcess(config)
    for (const { code } of await Promise.all(
      times(20, () => ask(next.origin, { key: 'tg_hammering' })),
    ))
      expect(code).toBe('api_key_banned')
    next.signal('SIGTERM')
    expect((await next.finished).code).toBe(0)
  })
})
