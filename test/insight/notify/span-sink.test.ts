/** Spans on their way to a real collector, which is well, refuses, or hangs; and what becomes of them by reloads. */
import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { createLog } from '../../../src/core/record/log.ts'
import { renderSnapshots } from '../../../src/core/record/metric-registry.ts'
import { createMetrics } from '../../../src/core/record/metrics.ts'
import type { Exchange } from '../../../src/core/pipeline/exchange.ts'
import { Tracing } from '../../../src/core/record/tracing.ts'
import { CollectorSink } from '../../../src/insight/notify/span-sink.ts'
import { sumOf } from '../../support/gateway.ts'
import { passing } from '../../support/log-lines.ts'
import { startCollector } from '../../support/otlp.ts'
import { ownMs } from '../../support/own-time.ts'

async function tracingTo(url: string) {
  const lines: string[] = []
  const log = createLog({
    level: 'info',
    access: true,
    format: 'json',
    destination: passing((line) => lines.push(line)),
  })
  const metrics = createMetrics({ version: '1', plans: [], routes: [] })
  const tracing = new Tracing(() =>
    Promise.resolve((collector) => new CollectorSink(collector, { version: '1', log, metrics })),
  )
  const use = async (collector: string | undefined) => {
    const telemetry = collector && { otlp: `${collector}/v1/traces`, sample: 1 }
    await tracing.load(telemetry || undefined)
    tracing.use(telemetry || undefined)
  }
  await use(url)
  const spans = async (outcome: string) =>
    sumOf(
      await renderSnapshots([await metrics.snapshot()]),
      `tollgate_trace_spans_total{outcome="${outcome}"`,
    )
  const events = (): unknown[] =>
    lines.map((line) => (JSON.parse(line) as { event: unknown }).event)
  return { tracing, use, spans, events, close: () => tracing.close() }
}

const request = {
  id: 'r1',
  path: '/v1/pets',
  caller: undefined,
  status: 200,
  refusal: undefined,
  cause: undefined,
  startedMs: 1,
  request: { method: 'GET', httpVersion: '1.1' },
  proto: 'http',
  route: { template: '/v1/pets' },
  backendEndedMs: undefined,
} as Exchange
/** So many requests, of one span each. */
const serve = (tracing: Tracing, count: number): void => {
  for (let at = 0; at < count; at++) tracing.ended(request, tracing.begin([], false), 2)
}

describe('a collector', () => {
  it('that hangs costs a queue of bounded length: beyond it spans are dropped and counted', async () => {
    const collector = await startCollector()
    collector.mode = 'hang'
    const { tracing, spans, close } = await tracingTo(collector.url)
    serve(tracing, 10_000)
    await expect.poll(() => collector.requests).toBe(1)
    // A batch is on its way.
    const before = await spans('dropped')
    expect(before).toBeGreaterThanOrEqual(10_000 - 2_048 - 512)
    serve(tracing, 10_000)
    expect(await spans('dropped')).toBeGreaterThanOrEqual(before + 10_000 - 512)
    expect(await spans('exported')).toBe(0)
    // A stop does not wait for what hangs: less than one time-out of an export.
    const startedMs = ownMs()
    await close()
    expect(ownMs() - startedMs).toBeLessThan(3_500)
  })

  it('that takes nothing is told once, and once when it does again', async () => {
    const collector = await startCollector()
    const { tracing, spans, events, close } = await tracingTo(collector.url)
    collector.mode = 400
    for (const batches of [1, 2]) {
      serve(tracing, 512)
      await expect.poll(() => spans('dropped')).toBe(batches * 512)
    }
    expect(events()).toEqual(['collectorLost'])
    collector.mode = undefined
    serve(tracing, 3)
    await close()
    expect(events()).toEqual(['collectorLost', 'collectorBack'])
    expect([await spans('dropped'), await spans('exported')]).toEqual([1_024, 3])
    expect(collector.spans).toHaveLength(3)
  })

  it('of another configuration gets what ends from then on, and none gets any where tracing is off', async () => {
    const [first, second] = [await startCollector(), await startCollector()]
    const { tracing, use, spans, close } = await tracingTo(first.url)
    serve(tracing, 1)
    const underWay = tracing.begin([], false)
    await use(second.url)
    tracing.ended(request, underWay, 2)
    await use(undefined)
    expect(tracing.isOn).toBe(false)
    tracing.ended(request, underWay, 2)
    await close()
    await expect.poll(() => spans('exported')).toBe(2)
    expect(first.spans).toHaveLength(1)
    expect(second.spans.map(({ traceId }) => traceId)).toEqual([underWay.traceId])
  })
})

it('no file loads the SDK before it is needed', () => {
  const early = globSync('src/**/*.ts').filter((file) =>
    /^(?:import|export)(?! type)[^'"(]*'[^']*span-sink\.ts'/m.test(readFileSync(file, 'utf8')),
  )
  expect(early).toEqual([])
})
