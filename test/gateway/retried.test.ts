/** What the log says of attempts that failed: of the last one, and of those before it that were repeated elsewhere. */
import { afterEach, describe, expect, it } from 'vitest'
import type { Backends } from '../../src/api/state.ts'
import { keys, startTestGateway } from '../support/gateway.ts'
import { answer, startRawBackend, type Answer } from '../support/raw-backend.ts'
import { freePort } from '../support/redis-server.ts'

const toClose: (() => unknown)[] = []
afterEach(async () => {
  for (const close of toClose.splice(0).toReversed()) await close()
})

async function start(engine: string, urls: readonly string[]) {
  const upstream = `upstream: { urls: [${urls.join(', ')}], engine: ${engine}, balance: round-robin, timeouts: { response: 1s } }`
  const gateway = await startTestGateway({ upstreams: [], blocks: { upstream } })
  toClose.push(gateway.stop)
  return {
    status: async (init = {}) => {
      const response = await gateway.fetch('/v1/pets', { key: keys.pro, ...init })
      await response.arrayBuffer()
      return response.status
    },
    line: async (name: string) => {
      const found = () => gateway.logLines().find(({ event }) => event === name)
      await expect.poll(found).toBeDefined()
      return found()
    },
    /** As the latest seconds were, in ms. */
    p99: async (backend: string) => {
      const response = await fetch(`http://127.0.0.1:${gateway.adminPort}/api/backends`)
      const { backends } = (await response.json()) as Backends
      return backends.find(({ name }) => name === backend)?.p99Ms
    },
    attemptSeconds: (backend: string) =>
      gateway.metric(`tollgate_backend_attempt_seconds_sum{backend="${backend}"}`),
    outcome: (backend: string, outcome: string) =>
      gateway.metric(`tollgate_backend_requests_total{backend="${backend}",outcome="${outcome}"}`),
  }
}

async function backendOf(reply: Answer): Promise<string> {
  const backend = await startRawBackend({ respond: () => reply })
  toClose.push(backend.close)
  return backend.url
}

const late = "no answer within 1000 ms (upstream.timeouts.response or the route's)"

describe.each(['direct', 'undici', 'http-proxy-3'])('with %s', (engine) => {
  it('a request that was repeated tells which backend failed it first, and why; each attempt is timed for the backend that had it', async () => {
    const [silent, well] = [await backendOf(undefined), await backendOf(answer(200, 'ok'))]
    const { status, line, outcome, p99, attemptSeconds } = await start(engine, [silent, well])
    expect(await status()).toBe(200)
    expect(await line('access')).toMatchObject({ backend: well, retried: `${silent}: ${late}` })
    expect(await outcome(silent, 'response_timeout')).toBe(1)
    expect(await attemptSeconds(well)).toBeLessThan(1)
    expect(await attemptSeconds(silent)).toBeGreaterThanOrEqual(1)
    await expect.poll(() => p99(well), { timeout: 10_000 }).toBeTypeOf('number')
    expect(await p99(well)).toBeLessThan(1_000)
    expect(await p99(silent)).toBeGreaterThanOrEqual(1_000)
  })

  it('a request that failed names its backend and the setting that was passed', async () => {
    const silent = await backendOf(undefined)
    const { status, line } = await start(engine, [silent])
    expect(await status()).toBe(504)
    const said = { backend: silent, cause: late }
    expect(await line('backendFailed')).toMatchObject({ ...said, kind: 'response_timeout' })
    const access = await line('access')
    expect(access).toMatchObject(said)
    expect(access).not.toHaveProperty('retried')
  })

  it('a request that failed twice names both', async () => {
    const urls = [await freePort(), await freePort()].map((port) => `http://127.0.0.1:${port}`)
    const { status, line } = await start(engine, urls)
    expect(await status()).toBe(502)
    const [first = '', second = ''] = urls
    expect(await line('backendFailed')).toMatchObject({ backend: second })
    expect((await line('access'))?.['retried']).toContain(`${first}: `)
  })
})
