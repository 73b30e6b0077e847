/** Workers trace for themselves, and a stop sends what they still have. */
import { get } from 'node:http'
import { expect, it } from 'vitest'
import { configText, keys } from '../support/gateway.ts'
import { startCollector } from '../support/otlp.ts'
import { temporaryFile } from '../support/processes.ts'
import { eventually, gatewayProcess, startRawBackend } from './gateways.ts'

it('each of two workers exports its own spans, the last ones as it ends', async () => {
  const [collector, backend] = [await startCollector(), await startRawBackend()]
  const blocks = {
    server: 'server: { listen: "127.0.0.1:0", workers: 2 }',
    telemetry: `telemetry: { otlp: "${collector.url}", sample: 100% }`,
  }
  const file = temporaryFile('gateway.yaml', configText({ upstreams: [backend.url], blocks }))
  const gateway = await gatewayProcess(file)
  // Each on a connection of its own, so that both workers get some.
  const ask = () =>
    new Promise<void>((resolve, reject) => {
      const headers = { authorization: `Bearer ${keys.enterprise}` }
      get(`${gateway.origin}/v1/pets`, { headers, agent: false }, (answer) => {
        answer.resume().on('end', resolve)
      }).on('error', reject)
    })
  const pids = () => new Set(collector.spans.map(({ resource }) => resource['process.pid']))
  let asked = 0
  await eventually('spans of both workers', async () => {
    await Promise.all(Array.from({ length: 10 }, ask))
    asked += 10
    return pids().size === 2
  })
  for (let last = 0; last < 20; last++, asked++) await ask()
  gateway.signal('SIGTERM')
  expect((await gateway.finished).code).toBe(0)
  const requests = collector.spans.filter(({ kind }) => kind === 'server')
  expect(requests).toHaveLength(asked)
  expect([...pids()]).not.toContain(gateway.pid)
  expect(new Set(collector.spans.map(({ resource }) => resource['service.instance.id'])).size).toBe(
    2,
  )
  expect(collector.problems).toEqual([])
  await collector.close()
})
