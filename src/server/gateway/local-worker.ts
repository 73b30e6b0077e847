/** A gateway of one process: it is the only worker itself. */
import type { Config } from '../../config/config.ts'
import { createMetrics } from '../../core/record/metrics.ts'
import { everySecond } from '../../insight/live/second.ts'
import { Gateway, type GatewayOptions } from './gateway.ts'
import { configNames } from './lasting-parts.ts'
import { Serving } from './serving.ts'
import { openStores } from './stores.ts'
import type { Workers } from './worker-link.ts'

export const createGateway = (config: Config, options: GatewayOptions): Gateway =>
  new Gateway(config, options, createLocalWorker)

function createLocalWorker(gateway: Gateway): Workers {
  const { version, log, registry, addresses, reloads } = gateway
  const { config } = reloads
  const metrics = createMetrics({ version, registry, ...configNames(config) })
  metrics.watchUsage(() => gateway.usage.dropped)
  const stores = openStores({ config, log, metrics })
  const serving = new Serving({ version, config, log, metrics, stores, addresses })
  const report = (at: number): void => gateway.addSecond(serving.takeSecond(at))
  const stopReports = everySecond(report)
  return {
    stores,
    operatorBans: serving.parts.bans,
    links: [serving],
    restarts: 0,
    measure: async () => [await metrics.snapshot()],
    probeBackends: () => serving.probeBackends(),
    ready: () => serving.ready(),
    listen: () => serving.listen(),
    prepare: (next) => serving.prepare(next),
    async drain(times) {
      await serving.drain(times)
      report(Math.floor(Date.now() / 1000))
    },
    close() {
      stopReports()
      return serving.close()
    },
  }
}
