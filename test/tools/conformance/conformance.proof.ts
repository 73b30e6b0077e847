/** The command against Tollgate, in real minutes that all of its forms share. */
import { describe, expect, it } from 'vitest'
import type { Report } from '../../../src/tools/conformance/suite.ts'
import {
  configFile,
  gatewayProcess,
  startRedisServer,
  startTollgate,
} from '../../process/gateways.ts'
import { backend, clients, commandFor, limits } from './tollgate.ts'

/** Of thirty: what a busy machine does not let it tell is no fault. */
const LEAST_HOLDING = 23
/** Where a busy machine holds up the store, nothing is admitted in another way: a check that meets this cannot tell. */
const patient = 'timeout: 110ms, onOutage: closed'

describe.concurrent('tollgate conformance', () => {
  it.each([
    ['one worker', { store: 'store: { file: "" }' }],
    [
      'four workers',
      {
        store: `store: { file: "", ${patient} }`,
        server: 'server: { listen: "127.0.0.1:0", workers: 4, overload: { lag: 10s } }',
      },
    ],
    ['Redis', { store: `store: { redis: REDIS, ${patient} }` }],
  ])(
    'finds nothing at Tollgate with %s',
    { timeout: 600_000 },
    async (name, { store, ...more }) => {
      const url = name === 'Redis' ? (await startRedisServer()).url : ''
      const blocks = { clients, store: store.replace('REDIS', `"${url}"`), ...more }
      const { origin } = await gatewayProcess(configFile((await backend()).url, blocks))
      const { code, stdout } = await startTollgate(commandFor(origin, '--json')).finished
      const { checks, ...report } = JSON.parse(stdout) as Report
      expect([code, checks.filter(({ verdict }) => verdict === 'broken')]).toEqual([0, []])
      const holding = checks.filter(({ verdict }) => verdict === 'holds')
      expect(holding.length, stdout).toBeGreaterThanOrEqual(LEAST_HOLDING)
      expect(report).toMatchObject({ limits, requests: expect.any(Number) })
      expect(report.seconds).toBeLessThan(240)
    },
  )
})
