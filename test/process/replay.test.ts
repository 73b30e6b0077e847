/** The log of a gateway, replayed under the configuration that they had: what they answered comes out again, or differs for a cause that the log shows. */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/config/clients/load.ts'
import { openLogs } from '../../src/tools/log-files/open.ts'
import { replay } from '../../src/tools/replay/replay.ts'
import type { ReplayReport } from '../../src/tools/replay/report.ts'
import { typed } from '../support/command-line.ts'
import { temporaryFile } from '../support/processes.ts'
import { freePort } from '../support/redis-server.ts'
import { clientsBlock, configFile, gatewayHere, gatewayProcess } from './gateways.ts'
import { startRawBackend, startRedisServer, storeOn } from './gateways.ts'
import type { Gateway, GatewayHere, GatewayProcess } from './gateways.ts'

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
async function rush({ call }: Gateway, rounds: number): Promise<void> {
  const ask = async (key: string): Promise<void> => {
    for (let round = 0; round < rounds; round++)
      await call(key, round % 10 === 9 ? '/v1/nothing/here' : '/v1/pets')
  }
  await Promise.all(keys.map(ask))
}

/** What comes out of the log, when all that was asked for is in it. */
async function replayed(
  file: string,
  gateway: GatewayHere | GatewayProcess,
): Promise<ReplayReport & { logged: number; logFile: string }> {
  if ('stop' in gateway) await gateway.stop()
  else {
    gateway.signal('SIGTERM')
    await gateway.finished
  }
  const logFile = temporaryFile('gateway.log', gateway.stderr())
  const logged = gateway
    .logged('access')
    .filter(({ plan, refusal }) => plan !== undefined && refusal !== 'method_not_allowed').length
  const config = await loadConfig(file, {})
  const report = await replay({ config, logs: openLogs([logFile]) })
  return { ...report, logged, logFile }
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
    await rush(gateway, 60)
    // What no backend has seen is handed back.
    await backend.close()
    await rush(gateway, 5)
    const report = await replayed(file, gateway)
    expect(differing(report), JSON.stringify(report.log)).toEqual({})
    expect(report.log?.same).toBe(report.requests)
    expect(report.requests + report.notJudged).toBe(report.logged)
    const { minute, day, ban } = report.refused
    expect(Math.min(minute, day, ban)).toBeGreaterThan(0)
    expect(gateway.stderr()).toContain('refundAgoMs')

    const half = temporaryFile('half.log', secondHalf(report.logFile))
    const rest = await replay({
      config: await loadConfig(file, {}),
      logs: openLogs([half]),
    })
    expect(rest.log?.differs).toMatchObject({ unexplained: 0, limits: 0 })
  })

  it('two workers on Redis that is lost for a while gives back its decisions, or says why not', async () => {
    const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
    const server = 'server: { listen: "127.0.0.1:0", workers: 2 }'
    const blocks = { clients: clients(), bans, store: storeOn(redis), server }
    const file = configFile(backend.url, blocks)
    const gateway = await gatewayProcess(file)
    await rush(gateway, 40)
    await redis.kill()
    await rush(gateway, 15)
    const report = await replayed(file, gateway)
    expectExplained(report)
    const { limits = 0, strikes = 0 } = differing(report)
    expect(limits + strikes).toBeGreaterThan(0)
    const others = Object.keys(differing(report)).filter(
      (cause) => !['limits', 'strikes'].includes(cause),
    )
    expect(others, JSON.stringify(report.log)).toEqual([])
  })

  it('two workers whose clients came before the last of them was up begins with their start', async () => {
    const [port, backend] = [await freePort(), await startRawBackend()]
    const server = `server: { listen: "127.0.0.1:${port}", workers: 2 }`
    const file = configFile(backend.url, { clients: clients(), bans, server })
    const headers = { authorization: 'Bearer tg_calm_one' }
    const knock = async (): Promise<unknown> =>
      await fetch(`http://127.0.0.1:${port}/v1/pets`, { headers }).catch(knock)
    const [gateway] = await Promise.all([gatewayProcess(file), knock()])
    await rush(gateway, 30)
    const report = await replayed(file, gateway)
    const [begin] = gateway.logged('configTaken')
    const [first] = gateway.logged('access')
    expect(String(first?.['time']) >= String(begin?.['time'])).toBe(true)
    expectExplained(report)
    expect(differing(report)).not.toHaveProperty('missing')
  })

  it('a gateway that took other limits meanwhile differs for that alone', async () => {
    const backend = await startRawBackend()
    const file = configFile(backend.url, { clients: clients(), bans })
    const gateway = await gatewayHere(file)
    await rush(gateway, 30)
    writeFileSync(file, readFileSync(configFile(backend.url, { clients: clients(3), bans })))
    await gateway.reload()
    expect(gateway.logged('configTaken')).toHaveLength(2)
    await rush(gateway, 30)
    const report = await replayed(file, gateway)
    expectExplained(report)
    expect(Object.keys(differing(report))).toEqual(['limits'])
    expect(report.read.revisions).toHaveLength(2)

    const { logFile } = report
    appendFileSync(logFile, 'torn\n')
    const args = ['replay', '--config', file, '--against', file, logFile]
    const { code, stdout, stderr } = await typed([...args, '--json'])
    expect([code, stderr]).toEqual([0, ''])
    expect(JSON.parse(stdout)).toMatchObject({ unreadable: 1, admitted: report.admitted })
    const table = (await typed(args, { columns: 80 })).stdout
    expect(table).toMatch(/requests, .*; 1 unreadable \(first: line \d+\)/)
    expect(table).toMatch(/^ +OLD +NEW +CHANGE\nadmitted +(\d+) +\1 +0$/m)
    expect(table).toContain('None of 3 clients is refused more.')
    expect((await typed(['replay', '--config', file, temporaryFile('x', 'torn\n')])).code).toBe(1)
    expect((await typed(['replay', '--config', temporaryFile('c', 'x: 1'), logFile])).code).toBe(2)
  })
})

function secondHalf(log: string): string {
  const lines = readFileSync(log, 'utf8').split('\n')
  return lines.slice(lines.length / 2).join('\n')
}
