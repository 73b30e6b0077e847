/** What the log says of attempts that failed: of the last one, and of those before it that were repeated elsewhere. */
import { describe, expect, it } from 'vitest'
import type { Backends } from '../../../src/admin/system/operations.ts'
import { gatewayTo, rawBackend } from '../../support/backed.ts'
import { keys } from '../../support/gateway.ts'
import { answer, type Answer } from '../../support/raw-backend.ts'

async function start(engine: string, urls: readonly string[]) {
  const upstream = `upstream: { urls: [${urls.join(', ')}], engine: ${engine}, balance: round-robin, timeouts: { response: 300ms } }`
  const gateway = await gatewayTo([], { upstream })
  return {
    status: () => gateway.status('/v1/pets', { key: keys.pro }),
    line: async (name: string) => {
      await expect.poll(() => gateway.lines(name)).toHaveLength(1)
      return gateway.lines(name)[0]
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

const backendOf = async (reply: Answer) => (await rawBackend({ respond: () => reply })).url

const late = "no answer within 300 ms (upstream.timeouts.response or the route's)"

describe.each(['direct', 'http-proxy-3'])('with %s', (engine) => {
  it('a request that was repeated tells which backend failed it first, and why; each attempt is timed for the backend that had it', async () => {
    const [silent, well] = [await backendOf(undefined), await backendOf(answer(200, 'ok'))]
    const isWellQuicker = async (): Promise<boolean> => {
      const { status, line, outcome, p99, attemptSeconds } = await start(engine, [silent, well])
      expect(await status()).toBe(200)
      expect(await line('access')).toMatchObject({ backend: well, retried: `${silent}: ${late}` })
      expect(await outcome(silent, 'response_timeout')).toBe(1)
      expect(await attemptSeconds(silent)).toBeGreaterThanOrEqual(0.3)
      await expect.poll(() => p99(well)).toBeTypeOf('number')
      expect(await p99(silent)).toBeGreaterThanOrEqual(250)
      const isQuicker = (await attemptSeconds(well)) < (await attemptSeconds(silent))
      return isQuicker && Number(await p99(well)) < Number(await p99(silent))
    }
    // But where the machine has held up that attempt, too.
    await expect.poll(isWellQuicker).toBe(true)
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
})
