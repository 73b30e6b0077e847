/** What serves requests, in this process on a free port, to be given one configuration after the other. */
import { parseConfigText } from '../../src/config/clients/load.ts'
import { createAddressCounter } from '../../src/state/memory/addresses.ts'
import { configNames } from '../../src/server/gateway/lasting-parts.ts'
import { Serving } from '../../src/server/gateway/serving.ts'
import { openStores } from '../../src/server/gateway/stores.ts'
import { createLog } from '../../src/core/record/log.ts'
import { renderSnapshots } from '../../src/core/record/metric-registry.ts'
import { createMetrics } from '../../src/core/record/metrics.ts'
import { gatewayEnds } from './ending.ts'
import { configText } from './gateway.ts'
import { passing } from './log-lines.ts'

/** See configText. */
export type Blocks = Readonly<Record<string, string>>

export const readBlocks = (upstreams: readonly string[], blocks: Blocks) =>
  parseConfigText(configText({ upstreams, blocks }), { file: 'test.yaml', env: {} })

/** upstreams: where a changed configuration names no others. */
export async function openServing(upstreams: readonly string[], blocks: Blocks = {}) {
  const config = readBlocks(upstreams, blocks)
  const lines: string[] = []
  const log = createLog({ ...config.log, destination: passing((line) => lines.push(line)) })
  const metrics = createMetrics({ version: 'test', ...configNames(config) })
  const serving = new Serving({
    version: 'test',
    config,
    log,
    metrics,
    stores: openStores({ config, log, metrics }),
    addresses: createAddressCounter(),
  })
  await serving.ready()
  const { port } = await serving.listen()
  const prepare = (changed: Blocks) => serving.prepare(readBlocks(upstreams, changed))
  let stopped: Promise<void> | undefined
  const end = async (): Promise<void> => {
    await serving.drain({ idleMs: 0, atMostMs: 1_000 })
    await serving.close()
    await log.close()
  }
  const stop = (): Promise<void> => (stopped ??= end())
  gatewayEnds(stop)
  return {
    serving,
    port,
    prepare,
    take: async (changed: Blocks) => (await prepare(changed)).commit(),
    get: (path: string, key?: string) =>
      fetch(`http://127.0.0.1:${port}${path}`, {
        headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
      }),
    raw: () => lines,
    /** Those of JSON. */
    lines: () =>
      lines
        .filter((line) => line.startsWith('{'))
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    metrics: async () => (await renderSnapshots([await metrics.snapshot()])).split('\n'),
    stop,
  }
}
