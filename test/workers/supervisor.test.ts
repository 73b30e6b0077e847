import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import {
  configFile,
  decided,
  eventually,
  gatewayProcess,
  startRawBackend,
  times,
  startTollgate,
} from '../process/gateways.ts'
import {
  ask,
  codes,
  gone,
  isAlive,
  workerBlocks,
  workerPids,
  type WorkerAnswer,
} from './workers.ts'

const wide = { id: 'wide', keys: ['tg_wide'], perMinute: 1_000_000, perDay: 1_000_000 }
const LIMIT = 200
/** Of the day, so that no minute ends meanwhile. */
const acme = { id: 'acme', keys: ['tg_acme'], perMinute: LIMIT, perDay: LIMIT }

describe('a supervisor', () => {
  it('that stands still is a store that is away; killed, it leaves no worker behind, and what was in flight is answered', async () => {
    const waiting: (() => void)[] = []
    let isHolding = false
    const backend = await startRawBackend({
      respond: async () => {
        if (isHolding) await new Promise<void>((resolve) => waiting.push(resolve))
        return answer(200, 'at last')
      },
    })
    const gateway = await gatewayProcess(configFile(backend.url, workerBlocks(2, [wide, acme])))
    // Until the workers know each other, and with them their shares.
    await sleep(4_000)
    const acmeServed = () => decided(() => ask(gateway.origin, { key: 'tg_acme' }))
    const warm = await Promise.all(times(40, acmeServed))
    expect(codes(warm)).toEqual({ '200': 40 })
    process.kill(gateway.pid, 'SIGSTOP')
    // For a second it may be no more than busy: what is not in hand is refused then, since shares could admit too many.
    const early: WorkerAnswer[] = []
    await eventually('both decide without it', async () => {
      early.push(await ask(gateway.origin, { key: 'tg_wide' }))
      return early.length > 20 && early.slice(-20).every(({ status }) => status === 200)
    })
    for (const { status } of early) expect([200, 503]).toContain(status)
    const frozen = []
    for (const key of times(40, (at) => (at % 2 === 0 ? 'tg_acme' : 'tg_wide')))
      frozen.push(await ask(gateway.origin, { key }), await ask(gateway.origin))
    process.kill(gateway.pid, 'SIGCONT')
    expect(codes(frozen)).toEqual({ '200': 40, '401 missing_api_key': 40 })
    await eventually('the store is back', () => gateway.logged('storeBack').length > 0)
    // What was admitted meanwhile is stated: the limit holds.
    await eventually('the end of the quota', async () => {
      const row = await Promise.all(times(40, () => ask(gateway.origin, { key: 'tg_acme' })))
      return row.every(({ status }) => status === 429)
    })
    const wideCalls = 20 + early.filter(({ status }) => status === 200).length
    const admitted = backend.requests.length - wideCalls
    expect(admitted).toBeGreaterThan(LIMIT / 2)
    expect(admitted).toBeLessThanOrEqual(LIMIT)

    isHolding = true
    const inFlight = times(6, () => decided(() => ask(gateway.origin, { key: 'tg_wide' })))
    await eventually('requests at the backend', () => waiting.length === 6)
    const pids = [...workerPids(gateway).values()]
    expect(pids.every(isAlive)).toBe(true)
    gateway.child.kill('SIGKILL')
    await sleep(300)
    for (const go of waiting) go()
    for (const { status, body } of await Promise.all(inFlight))
      expect([status, body]).toEqual([200, 'at last'])
    await gone(pids)
    // The port is free again for the next one.
    const next = createServer().listen(Number(new URL(gateway.origin).port), '127.0.0.1')
    await once(next, 'listening')
    next.close()
  })

  it('that is killed leaves none behind either while they start', async () => {
    const gateway = startTollgate([
      'start',
      '--config',
      configFile('http://127.0.0.1:1', workerBlocks(2)),
    ])
    await gateway.listening('tollgate')
    const pids = [...gateway.stderr().matchAll(/"workerStarted".*?"pid":(\d+)/g)].map(([, pid]) =>
      Number(pid),
    )
    gateway.child.kill('SIGKILL')
    await gateway.finished
    await gone(pids)
  })
})
