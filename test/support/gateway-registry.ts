/** The registry of a gateway that has two workers, a client that asks, and a configuration that was refused. */
import { DAY_MS } from '../../src/config/time.ts'
import { MetricRegistry } from '../../src/core/record/metric-registry.ts'
import { addGatewayMetrics } from '../../src/server/gateway/gateway-metrics.ts'
import type { Gateway } from '../../src/server/gateway/gateway.ts'

const gateway = {
  listeningWorkers: 2,
  unsavedSeconds: 7,
  workers: { restarts: 5 },
  live: {
    top: { busiest: () => [{ client: 'acme', requests: 8 }] },
    deprecated: { clientsByRoute: () => new Map([['getPet', 2]]) },
  },
  reloads: {
    config: {
      revision: 'new',
      admin: {},
      certificates: [{ setting: 'server.tls.cert', endsAtMs: 1 }],
      clients: { countEnding: (from: number, to: number) => (to - from) / DAY_MS },
    },
    takenAtMs: 1_000,
    counts: { taken: 3, refused: 4 },
    fault: 'a typing error',
  },
}

export function gatewayRegistry(): MetricRegistry {
  const registry = new MetricRegistry()
  addGatewayMetrics(registry, gateway as unknown as Gateway)
  return registry
}
