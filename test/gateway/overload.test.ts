/** A gateway whose event loop is late: blocked here for real, as it is the one that runs the test. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { keys, minuteWithAtLeast, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { rawExchange } from '../support/raw-client.ts'
import { startRawBackend, type RawBackend } from '../support/raw-backend.ts'

const LAG_MS = 300
const cleanUps: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp()
})

async function start(): Promise<{ gateway: TestGateway; backend: RawBackend }> {
  const backend = await startRawBackend()
  cleanUps.push(backend.close)
  const server = `server: { listen: "127.0.0.1:0", overload: { lag: ${LAG_MS}ms } }`
  const cors = 'cors: { origins: ["https://app.example"] }'
  const gateway = await startTestGateway({ upstreams: [backend.url], blocks: { server, cors } })
  cleanUps.push(gateway.stop)
  return { gateway, backend }
}

/** Blocks the loop for so long, again and again, with a turn for everybody in between, until `work` is done. Asleep, so that no more than that comes of a busy machine. */
async function blocked<Result>(blockMs: number, work: () => Promise<Result>): Promise<Result> {
  const over = new AbortController()
  const block = async (): Promise<void> => {
    while (!over.signal.aborted) {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, blockMs)
      await sleep(60)
    }
  }
  const blocking = block()
  try {
    return await work()
  } finally {
    over.abort()
    await blocking
  }
}

async function ask(gateway: TestGateway, key?: string) {
  const response = await gateway.fetch('/v1/pets', key === undefined ? {} : { key })
  const { status, headers } = response
  const body = await response.text()
  const { code } = (status === 200 ? {} : JSON.parse(body)) as { code?: string }
  const field = (name: string): number => Number(headers.get(name))
  const remaining = field('x-ratelimit-remaining')
  return { status, code, remaining, retryAfter: headers.get('retry-after') }
}
async function askAsBrowser({ port }: TestGateway): Promise<number | undefined> {
  const fields = 'Origin: https://app.example\r\nAccess-Control-Request-Method: GET\r\n'
  const text = `OPTIONS /v1/pets HTTP/1.1\r\nHost: api\r\n${fields}\r\n`
  return (await rawExchange(port, text, { responses: 1 })).responses[0]?.status
}

const shedding = (gateway: TestGateway): unknown[] =>
  gateway.logLines().flatMap(({ event, refused }) => (event === 'shedding' ? [refused] : []))
const readiness = async ({ adminPort }: TestGateway) => {
  const response = await fetch(`http://127.0.0.1:${adminPort}/readyz`)
  const { checks } = (await response.json()) as { checks: { name: string }[] }
  return { status: response.status, ...checks.find(({ name }) => name === 'load') }
}
const refused = { status: 503, code: 'overloaded', retryAfter: '1' }

describe('a gateway whose event loop is late', () => {
  it('refuses who has no valid credential, uncounted, and serves who has one', async () => {
    const { gateway, backend } = await start()
    await minuteWithAtLeast(25_000)
    const before = await ask(gateway)
    expect(await askAsBrowser(gateway)).toBe(204)
    // Late by more than the limit, and less than twice that even on a machine that is busy.
    await blocked(LAG_MS + 100, async () => {
      await expect.poll(() => shedding(gateway), { timeout: 20_000 }).toEqual(['anonymous'])
      expect(await ask(gateway)).toMatchObject({ ...refused, remaining: before.remaining })
      expect(await ask(gateway, 'tg_nobody')).toMatchObject(refused)
      expect(await askAsBrowser(gateway)).toBe(503)
      expect(await ask(gateway, keys.pro)).toMatchObject({ status: 200, remaining: 299 })
      expect(await readiness(gateway)).toMatchObject({ status: 200, ok: true })
      expect(await gateway.metric('tollgate_event_loop_lag_seconds')).toBeGreaterThan(LAG_MS / 1000)
    })
    expect(backend.requests).toHaveLength(1)
  }, 60_000)

  it('serves who has a valid credential, however late, while the load is that of others', async () => {
    const { gateway } = await start()
    const others = () => Promise.all(Array.from({ length: 30 }, () => ask(gateway)))
    await others()
    await blocked(2 * LAG_MS + 200, async () => {
      await expect.poll(() => shedding(gateway), { timeout: 20_000 }).toEqual(['anonymous'])
      for (let round = 0; round < 4; round++) {
        await others()
        expect(await ask(gateway, keys.pro)).toMatchObject({ status: 200 })
      }
    })
    expect(shedding(gateway)).not.toContain('everything')
  }, 60_000)

  it('refuses all beyond twice that, uncharged, is not ready, and comes back step by step', async () => {
    const { gateway, backend } = await start()
    await minuteWithAtLeast(25_000)
    expect(await ask(gateway, keys.pro)).toMatchObject({ status: 200, remaining: 299 })
    await blocked(2 * LAG_MS + 200, async () => {
      await expect.poll(() => shedding(gateway).at(-1), { timeout: 20_000 }).toBe('everything')
      expect(await ask(gateway, keys.pro)).toMatchObject({ ...refused, remaining: 299 })
      expect(await ask(gateway)).toMatchObject(refused)
      expect(await readiness(gateway)).toMatchObject({ status: 503, ok: false })
    })
    await expect.poll(() => shedding(gateway).at(-1), { timeout: 20_000 }).toBe('nothing')
    expect(shedding(gateway).slice(-3)).toEqual(['everything', 'anonymous', 'nothing'])
    expect(await ask(gateway, keys.pro)).toMatchObject({ status: 200, remaining: 298 })
    expect(await readiness(gateway)).toMatchObject({ status: 200, ok: true, reason: 'in time' })
    expect(backend.requests).toHaveLength(2)
    expect(await gateway.metric('tollgate_refusals_total{code="overloaded"')).toBe(2)
  }, 60_000)
})
