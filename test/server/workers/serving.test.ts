import { setTimeout as sleep } from 'node:timers/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { minuteWithAtLeast } from '../../support/gateway.ts'
import { ownMs } from '../../support/own-time.ts'
import { temporaryFolder } from '../../support/processes.ts'
import { rawExchange } from '../../support/raw-client.ts'
import type { RawBackend } from '../../support/raw-backend.ts'
import { freePort } from '../../support/redis-server.ts'
import {
  again,
  configFile,
  decided,
  eventually,
  gatewayProcess,
  startRawBackend,
  times,
  startTollgate,
  type GatewayProcess,
} from '../../process/gateways.ts'
import { ask, codes, metricPage, workerBlocks, workerPids, workersThatAnswered } from './workers.ts'
import type { WorkerAnswer } from './workers.ts'

const wide = { id: 'wide', keys: ['tg_wide'], perMinute: 100_000 }

/** Stops the processes again and again, and lets them run for a moment each time, until `work` is done. */
async function stopped(pids: readonly number[], work: () => Promise<unknown>): Promise<void> {
  const letGo = again(
    1,
    async () => {
      for (const pid of pids) process.kill(pid, 'SIGSTOP')
      await sleep(250)
      for (const pid of pids) process.kill(pid, 'SIGCONT')
    },
    25,
  )
  try {
    await work()
  } finally {
    await letGo()
  }
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

// One after the other, on one gateway.
describe('three workers on one port', () => {
  /** Of the day, so that no minute ends meanwhile. */
  const acme = { id: 'acme', keys: ['tg_acme'], perMinute: 100, perDay: 100 }
  const narrow = { id: 'narrow', keys: ['tg_hammering', 'tg_calm'], perMinute: 3, perDay: 3 }
  /** More than the refusals of others here. */
  const strikes = 250
  const requests =
    'tollgate_requests_total{route="listPets",plan="enterprise",method="GET",status="2xx"}'
  let backend: RawBackend
  let gateway: GatewayProcess
  let config: string

  beforeAll(async () => {
    backend = await startRawBackend()
    const jwksUri = `http://127.0.0.1:${await freePort()}/jwks.json`
    const more = {
      // No admission but by the store.
      store: `store: { file: "${join(temporaryFolder(), 'tollgate.db')}", timeout: 110ms, onOutage: closed }`,
      bans: `bans: { strikes: ${strikes}, within: 1m, grace: 0s, duration: 5m }`,
      anonymous: 'anonymous: { perMinute: 30 }',
      jwt: `jwt: { issuer: "https://id.example/", audience: a, jwksUri: "${jwksUri}", algorithms: [ES256] }`,
    }
    config = configFile(backend.url, workerBlocks(3, [acme, narrow, wide], { more }))
    gateway = await gatewayProcess(config)
  })

  it('all answer, and one page of metrics, one readiness and one log speak for them', async () => {
    expect(new Set(workerPids(gateway).keys())).toEqual(new Set([1, 2, 3]))
    const calls = await allAnswer(gateway, 3)
    expect(backend.requests).toHaveLength(calls)
    // One that stands still is left out after a second.
    let page = await metricPage(gateway)
    await eventually('all of it', async () => {
      page = await metricPage(gateway)
      return page.get(requests) === calls
    })
    // Those that a busy machine answered 503, and that were asked again, too.
    const all = [...page].filter(([name]) =>
      name.startsWith('tollgate_requests_total{route="listPets"'),
    )
    for (const [name, value] of Object.entries({
      [requests]: calls,
      'tollgate_request_duration_seconds_count{route="listPets"}': all.reduce(
        (sum, [, count]) => sum + count,
        0,
      ),
      tollgate_workers: 3,
      tollgate_worker_restarts_total: 0,
      tollgate_store_up: 1,
      tollgate_requests_in_flight: 0,
    }))
      expect([name, page.get(name)]).toEqual([name, value])
    const builds = [...page].filter(([name]) => name.startsWith('tollgate_build_info'))
    expect(builds.map(([, value]) => value)).toEqual([1])
    const ready = await fetch(`${gateway.adminOrigin}/readyz`)
    expect([ready.status, await ready.json()]).toMatchObject([
      200,
      {
        checks: [
          {},
          { ok: true, reason: '3 of 3 workers' },
          { reason: 'in time' },
          { reason: 'embedded' },
          {
            name: 'credentials',
            ok: true,
            reason: 'no key set yet, API keys only',
            warning: expect.stringContaining('ECONNREFUSED') as string,
          },
          {},
        ],
      },
    ])
    const served = () => gateway.logged('access').filter(({ status }) => status === 200)
    await eventually('the lines of all calls', () => served().length === calls)
  })

  it('admit exactly the limit between them', async () => {
    const before = backend.requests.length
    const answers: WorkerAnswer[] = []
    // What a worker holds that stands still is refused by the others, until it goes on.
    await eventually('the whole limit', async () => {
      answers.push(...(await Promise.all(times(300, () => ruling(gateway, 'tg_acme')))))
      return backend.requests.length - before >= 100
    })
    expect(codes(answers)).toEqual({ '200': 100, '429 rate_limit_exceeded': answers.length - 100 })
    expect(backend.requests.length - before).toBe(100)
    for (const { status, headers } of answers)
      if (status === 429) expect(headers['x-ratelimit-remaining']).toBe('0')
    const refused = 'tollgate_quota_decisions_total{window="day",outcome="refused"}'
    const count = async () => (await metricPage(gateway)).get(refused)
    await expect.poll(count).toBe(answers.length - 100)
  })

  it('count requests without a credential together, and refuse from then on', async () => {
    await minuteWithAtLeast(10_000)
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
    await allAnswer(gateway, 3)
    expect(gateway.logged('internalError')).toEqual([])
  })

  it('count strikes together; a ban holds on all within a second, on new ones too, and over a restart', async () => {
    const hammered = (of = gateway) =>
      Promise.all(times(20, () => ask(of.origin, { key: 'tg_hammering' })))
    const answers: WorkerAnswer[] = []
    while (!answers.some(({ code }) => code === 'api_key_banned') && answers.length < 1_000)
      answers.push(...(await hammered()))
    await eventually('the line of the ban', () => gateway.logged('keyBanned').length > 0)
    // The first 429 of a key at each worker is no strike; the last strike, wherever it came, brings the ban.
    const refused = answers.filter(({ code }) => code === 'rate_limit_exceeded')
    expect(refused.length).toBeGreaterThanOrEqual(strikes + 1)
    const bannedMs = ownMs()
    let slowestMs = 0
    await eventually('twenty bans in a row', async () => {
      const startedMs = performance.now()
      const row = await hammered()
      slowestMs = Math.max(slowestMs, performance.now() - startedMs)
      return row.every(({ code }) => code === 'api_key_banned')
    })
    // A second is promised; on a busy machine the calls that ask for it take their time too.
    expect(ownMs() - bannedMs).toBeLessThan(1_500 + 5 * slowestMs)
    expect((await ruling(gateway, 'tg_calm')).code).toBe('rate_limit_exceeded')
    expect(gateway.logged('keyBanned')).toHaveLength(1)
    await expect
      .poll(async () => (await metricPage(gateway)).get('tollgate_strikes_total'))
      .toBeGreaterThanOrEqual(strikes)
    const page = await metricPage(gateway)
    expect(page.get('tollgate_bans_total')).toBe(1)
    expect(page.get('tollgate_banned_keys')).toBe(1)

    // A worker that begins anew has no memory of its own.
    const pids = workerPids(gateway)
    process.kill(pids.get(1) ?? NaN, 'SIGKILL')
    await eventually('the new worker', () => workerPids(gateway).get(1) !== pids.get(1))
    const isHeld = async (of = gateway) =>
      (await hammered(of)).every(({ code }) => code === 'api_key_banned')
    await eventually('the ban there, too', isHeld)

    // More than a pipe takes at once of each: no line is torn.
    const path = `/v1/${'p'.repeat(450)}`
    const calls = times(600, (at) => at)
    const caller = async (): Promise<void> => {
      while (calls.pop() !== undefined) await ask(gateway.origin, { key: 'tg_wide', path })
    }
    await Promise.all(times(20, caller))
    gateway.signal('SIGTERM')
    const { code, stdout, stderr } = await gateway.finished
    expect([code, stdout.trim().split('\n')]).toEqual([0, [expect.any(String), expect.any(String)]])
    for (const line of stderr.trim().split('\n'))
      expect(() => JSON.parse(line) as unknown, line).not.toThrow()
    const long = gateway.logged('access').filter(({ route }) => route === 'unmatched')
    expect([long.length, new Set(long.map(({ worker }) => worker)).size]).toEqual([600, 3])
    const drained = new Set(gateway.logged('drained').map(({ worker }) => worker))
    expect(drained).toEqual(new Set([1, 2, 3]))

    const next = await gatewayProcess(config)
    await eventually('twenty bans in a row, within a second of its start', () => isHeld(next))
    next.signal('SIGTERM')
    expect((await next.finished).code).toBe(0)
  })
})

describe('one worker', () => {
  it('is the process itself, which a roll is refused with a word', async () => {
    const { url } = await startRawBackend()
    const gateway = await gatewayProcess(configFile(url, workerBlocks(1, [wide])))
    expect(workerPids(gateway).size).toBe(0)
    expect(await gateway.metric('tollgate_workers ')).toBe(1)
    expect((await ruling(gateway, 'tg_wide')).status).toBe(200)
    expect(gateway.logged('access').every((line) => !('worker' in line))).toBe(true)
    gateway.signal('SIGUSR2')
    await eventually('the word', () => gateway.stderr().includes('server.workers: 1'))
    expect((await fetch(`${gateway.adminOrigin}/healthz`)).status).toBe(200)
  })
})

describe('workers whose event loops are late', () => {
  it('say so in the one readiness of all, which ends only when all refuse everything', async () => {
    const server = ', overload: { lag: 40ms }'
    const backend = await startRawBackend()
    const gateway = await gatewayProcess(
      configFile(backend.url, workerBlocks(2, [wide], { server })),
    )
    const [first = NaN, second = NaN] = workerPids(gateway).values()
    const load = async () => {
      const { status, reason } = await gateway.check('load')
      return `${status} ${/\d of \d/.exec(reason ?? '')?.[0] ?? reason}`
    }
    const seen = (what: string) => eventually(what, async () => (await load()) === what)
    await stopped([first], () => seen('200 1 of 2'))
    await stopped([first, second], () => seen('503 2 of 2'))
    await seen('200 in time')
    await expect
      .poll(() => gateway.logged('shedding').at(-1))
      .toMatchObject({ refused: 'nothing', level: 'info' })
  })
})

describe('the demonstration with workers', () => {
  it('has the catalogue in the process that looks after them', async () => {
    const port = await freePort()
    const file = configFile(`http://127.0.0.1:${port}`, workerBlocks(2, [wide]))
    const demo = startTollgate(['demo', '--config', file, '--db', 'pets.db'])
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
