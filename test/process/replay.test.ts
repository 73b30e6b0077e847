/** The logs of gateways, replayed under the configuration that they had: what they answered comes out again, or differs for a cause that the log shows. */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/clients/load.ts'
import { openLogs, type LogOptions } from '../../src/log-files/open.ts'
import { replay } from '../../src/replay/replay.ts'
import type { ReplayReport } from '../../src/replay/report.ts'
import { typed } from '../support/command-line.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import { answer } from '../support/raw-backend.ts'
import {
  clientsBlock,
  configFile,
  eventually,
  gatewayHere,
  gatewayProcess,
  pick,
  startRawBackend,
  startRedisServer,
  times,
  storeOn,
  type Gateway,
  type GatewayHere,
  type GatewayProcess,
} from './gateways.ts'

const limits = [
  { perMinute: 40, perDay: 40 },
  { perMinute: 15, perDay: 10_000 },
  // As much as is asked of one gateway before its backend is gone, and less than with what is asked then.
  { perMinute: 125, perDay: 125 },
]
const ids = ['acme', 'bolt', 'calm']
const keys = ids.flatMap((id) => [`tg_${id}_one`, `tg_${id}_two`])
const clients = (factor = 1): string =>
  clientsBlock(
    limits.map(({ perMinute, perDay }, nth) => ({
      id: ids[nth] ?? '',
      keys: keys.slice(2 * nth, 2 * nth + 2),
      perMinute: perMinute * factor,
      perDay: perDay * factor,
    })),
  )
const bans = 'bans: { strikes: 20, within: 10s, grace: 0s, duration: 1s, growth: 2 }'

/** Every key asks again and again, side by side, some of them for nothing that there is. */
async function rush(gateways: readonly Gateway[], rounds: number): Promise<void> {
  const ask = async (key: string, nth: number): Promise<void> => {
    for (let round = 0; round < rounds; round++) {
      const gateway = pick(gateways, (round + nth) % gateways.length)
      await gateway.call(key, round % 10 === 9 ? '/v1/nothing/here' : '/v1/pets')
    }
  }
  await Promise.all(keys.map(ask))
}

/** What comes out of the logs, when all that was asked for is in them. */
async function replayed(
  file: string,
  gateways: readonly (GatewayHere | GatewayProcess)[],
  options: LogOptions = {},
): Promise<ReplayReport & { logged: number; logs: string[] }> {
  for (const gateway of gateways)
    if ('stop' in gateway) await gateway.stop()
    else {
      gateway.signal('SIGTERM')
      await gateway.finished
    }
  const logs = gateways.map((gateway) => temporaryFile('gateway.log', gateway.stderr()))
  const logged = gateways
    .flatMap((gateway) => gateway.logged('access'))
    .filter(({ plan, refusal }) => plan !== undefined && refusal !== 'method_not_allowed').length
  const config = await loadConfig(file, {})
  const { report } = await replay({ config, logs: openLogs(logs, options) })
  return { ...report, logged, logs }
}

const differing = ({ log }: ReplayReport): Record<string, number> =>
  Object.fromEntries(Object.entries(log?.differs ?? {}).filter(([, number]) => number > 0))
const sum = (numbers: Record<string, number>): number =>
  Object.values(numbers).reduce((one, other) => one + other, 0)
/** Each request of a known client is either the same or differs for a cause that is known. */
function expectExplained(report: ReplayReport & { logged: number }): void {
  const { log, requests, notJudged, logged } = report
  expect(log?.differs.unexplained, JSON.stringify(log)).toBe(0)
  expect(requests + notJudged).toBe(logged)
  expect((log?.same ?? 0) + sum(differing(report))).toBeGreaterThanOrEqual(requests)
}

describe('replayed, the log of', () => {
  it('one gateway gives back each of its decisions: limits, bans, refunds', async () => {
    const backend = await startRawBackend()
    const file = configFile(backend.url, { clients: clients(), bans })
    const gateway = await gatewayHere(file)
    await rush([gateway], 60)
    // What no backend has seen is handed back.
    await backend.close()
    await rush([gateway], 5)
    const report = await replayed(file, [gateway])
    expect(differing(report), JSON.stringify(report.log)).toEqual({})
    expect(report.log?.same).toBe(report.requests)
    expect(report.requests + report.notJudged).toBe(report.logged)
    const { minute, day, ban } = report.refused
    expect(Math.min(minute, day, ban)).toBeGreaterThan(0)
    expect(gateway.stderr()).toContain('refundAgoMs')

    const half = report.logs.map((log) => temporaryFile('half.log', secondHalf(log)))
    const { report: rest } = await replay({
      config: await loadConfig(file, {}),
      logs: openLogs(half),
    })
    expect(rest.log?.differs).toMatchObject({ unexplained: 0, limits: 0 })
  })

  it('two workers gives back its decisions, but for tokens and strikes of others of them', async () => {
    const backend = await startRawBackend()
    const file = configFile(backend.url, {
      clients: clients(),
      bans,
      // What it keeps may be of before the start: then a first line tells of use that another worker only holds.
      store: `store: { redis: "", file: "${join(temporaryFolder(), 'state.db')}" }`,
      server: 'server: { listen: "127.0.0.1:0", workers: 2 }',
    })
    const gateway = await gatewayProcess(file)
    await rush([gateway], 50)
    const report = await replayed(file, [gateway])
    expectExplained(report)
    const others = Object.keys(differing(report)).filter(
      (cause) => !['limits', 'strikes'].includes(cause),
    )
    expect(others, JSON.stringify(report.log)).toEqual([])
  })

  it('two gateways on Redis that is lost for a while gives back its decisions, or says why not', async () => {
    const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
    const file = configFile(backend.url, { clients: clients(), bans, store: storeOn(redis) })
    // What tells processes apart in a log tells these.
    const gateways = await Promise.all([gatewayHere(file), gatewayProcess(file)])
    await rush(gateways, 30)
    await redis.kill()
    await rush(gateways, 15)
    const report = await replayed(file, gateways)
    expectExplained(report)
    const { limits = 0, strikes = 0 } = differing(report)
    expect(limits + strikes).toBeGreaterThan(0)
  })

  it('a gateway with a request that lasts longer than the reading waits differs for that alone', async () => {
    const held = Promise.withResolvers<void>()
    const backend = await startRawBackend({
      respond: async ({ target }) => {
        if (target.endsWith('/pets/1')) await held.promise
        return answer(200, 'ok')
      },
    })
    const block = clientsBlock([
      { id: 'acme', keys: ['tg_acme'], perMinute: 20, perDay: 20 },
      { id: 'bolt', keys: ['tg_bolt'], perMinute: 10_000 },
    ])
    const file = configFile(backend.url, { clients: block })
    const gateway = await gatewayHere(file)
    const long = gateway.call('tg_acme', '/v1/pets/1')
    await eventually('it is under way', () => backend.requests.length === 1)
    for (let nth = 0; nth < 20; nth++) await gateway.call('tg_acme')
    await sleep(1_500)
    // More than is read at once, written when the reading waits no longer for what was decided before.
    const path = `/v1/pets/${'long'.repeat(250)}`
    while (gateway.stderr().length < 400_000)
      await Promise.all(times(20, () => gateway.call('tg_bolt', path)))
    held.resolve()
    expect((await long).status).toBe(200)
    const report = await replayed(file, [gateway], { windowMs: 1_000 })
    expect(differing(report), JSON.stringify(report.log)).toEqual({ missing: 1 })
    expect(report.read.late).toBe(1)
    expect(differing(await replayed(file, [gateway]))).toEqual({})
  })

  it('a gateway that took other limits meanwhile differs for that alone', async () => {
    const backend = await startRawBackend()
    const file = configFile(backend.url, { clients: clients(), bans })
    const gateway = await gatewayHere(file)
    await rush([gateway], 30)
    writeFileSync(file, readFileSync(configFile(backend.url, { clients: clients(3), bans })))
    await gateway.reload()
    expect(gateway.logged('configTaken')).toHaveLength(2)
    await rush([gateway], 30)
    const report = await replayed(file, [gateway])
    expectExplained(report)
    expect(Object.keys(differing(report))).toEqual(['limits'])
    expect(report.read.revisions).toHaveLength(2)

    const [log = ''] = report.logs
    appendFileSync(log, 'torn\n')
    const args = ['replay', '--config', file, '--against', file, log]
    const { code, stdout, stderr } = await typed([...args, '--json'])
    expect([code, stderr]).toEqual([0, ''])
    expect(JSON.parse(stdout)).toMatchObject({ unreadable: 1, admitted: report.admitted })
    const table = (await typed(args, { columns: 80 })).stdout
    expect(table).toMatch(/requests, .*; 1 unreadable \(first: line \d+\)/)
    expect(table).toMatch(/^ +OLD +NEW +CHANGE\nadmitted +(\d+) +\1 +0$/m)
    expect(table).toContain('0 of 3 clients are refused more.')
    expect((await typed(['replay', '--config', file, temporaryFile('x', 'torn\n')])).code).toBe(1)
    expect((await typed(['replay', '--config', temporaryFile('c', 'x: 1'), log])).code).toBe(2)
  })
})

function secondHalf(log: string): string {
  const lines = readFileSync(log, 'utf8').split('\n')
  return lines.slice(lines.length / 2).join('\n')
}
