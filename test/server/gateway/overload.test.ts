/** A gateway whose event loop is late: blocked here for real, as it is the one that runs the test. */
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { backed } from '../../support/backed.ts'
import { keys, type TestGateway } from '../../support/gateway.ts'
import { rawExchange } from '../../support/raw-client.ts'

const LAG_MS = 200

const start = () =>
  backed({
    blocks: {
      server: `server: { listen: "127.0.0.1:0", overload: { lag: ${LAG_MS}ms } }`,
      anonymous: 'anonymous: { perMinute: 100000 }',
      cors: 'cors: { origins: ["https://app.example"] }',
    },
  })

/**
 * Blocks the loop for more than twice the limit, again and again, with a turn for everybody in between, until `work` is done. Asleep,
 * so that no more than that comes of a busy machine. crowd: called before each block.
 */
async function blocked(work: () => Promise<void>, crowd = (): void => {}): Promise<void> {
  const over = new AbortController()
  const block = async (): Promise<void> => {
    while (!over.signal.aborted) {
      crowd()
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * LAG_MS + 100)
      await sleep(60)
    }
  }
  const blocking = block()
  try {
    await work()
  } finally {
    over.abort()
    await blocking
  }
}

/** Twenty requests without a credential, whose answers nobody waits for: to read them would take the turns of those that are. */
function crowdOf({ port }: TestGateway): () => void {
  let last: Socket | undefined
  return () => {
    last?.destroy()
    last = connect(port, '127.0.0.1').on('error', () => undefined)
    last.resume().write('GET /v1/pets HTTP/1.1\r\nHost: api\r\n\r\n'.repeat(20))
  }
}

const ask = async (gateway: TestGateway, key?: string) => {
  const { header, ...told } = await gateway.ask('/v1/pets', { key })
  return { ...told, retryAfter: header('retry-after') }
}
async function askAsBrowser({ port }: TestGateway): Promise<number | undefined> {
  const fields = 'Origin: https://app.example\r\nAccess-Control-Request-Method: GET\r\n'
  const text = `OPTIONS /v1/pets HTTP/1.1\r\nHost: api\r\n${fields}\r\n`
  return (await rawExchange(port, text, { responses: 1 })).responses[0]?.status
}

const shedding = (gateway: TestGateway) => gateway.lines('shedding').map(({ refused }) => refused)
const load = async (gateway: TestGateway) => {
  const { status, reasons } = await gateway.readiness()
  return [status, reasons['load']]
}
const refused = { status: 503, code: 'overloaded', retryAfter: '1' }

describe('a gateway whose event loop is late', () => {
  it('refuses who has no valid credential, uncounted, and serves who has one, however late, while the load is that of others', async () => {
    const { gateway, backend } = await start()
    expect(await askAsBrowser(gateway)).toBe(204)
    // A busy machine may have been late by itself.
    const before = shedding(gateway).length
    await blocked(async () => {
      await expect.poll(() => shedding(gateway).at(-1)).toBe('anonymous')
      const { left, ...first } = await ask(gateway)
      expect(first).toMatchObject(refused)
      const after = await ask(gateway, 'tg_nobody')
      expect(after).toMatchObject(refused)
      // Another minute may have begun, of which nothing is used.
      expect([left, 100_000]).toContain(after.left)
      expect(await askAsBrowser(gateway)).toBe(503)
      expect(await ask(gateway, keys.pro)).toMatchObject({ status: 200, dayLeft: 9_999 })
      expect((await load(gateway))[0]).toBe(200)
      // The third of the latest looks, of which more are in time where a turn takes longer.
      await expect
        .poll(() => gateway.metric('tollgate_event_loop_lag_seconds'))
        .toBeGreaterThan((2 * LAG_MS) / 1000)
    }, crowdOf(gateway))
    expect(shedding(gateway).slice(before)).not.toContain('everything')
    expect(backend.requests).toHaveLength(1)
  })

  it('refuses all where it is not, uncharged, is not ready, and comes back step by step', async () => {
    const { gateway, backend } = await start()
    expect(await ask(gateway, keys.pro)).toMatchObject({ status: 200, dayLeft: 9_999 })
    await blocked(async () => {
      await expect.poll(() => shedding(gateway).at(-1)).toBe('everything')
      expect(await ask(gateway, keys.pro)).toMatchObject({ ...refused, dayLeft: 9_999 })
      expect(await ask(gateway)).toMatchObject(refused)
      expect(await load(gateway)).toEqual([503, expect.stringMatching(/^!/)])
    })
    await expect.poll(() => shedding(gateway).at(-1)).toBe('nothing')
    // It may begin again likewise.
    const said = shedding(gateway)
    const steps = said.slice(said.lastIndexOf('everything'))
    expect(steps.slice(0, 3)).toEqual(['everything', 'anonymous', 'nothing'])
    expect(await ask(gateway, keys.pro)).toMatchObject({ status: 200, dayLeft: 9_998 })
    expect(await load(gateway)).toEqual([200, 'in time'])
    expect(backend.requests).toHaveLength(2)
    expect(await gateway.metric('tollgate_refusals_total{code="overloaded"')).toBe(2)
  })
})
