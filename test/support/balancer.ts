/** A balancer with the defaults of the configuration. */
import type { ConnectionOptions } from 'node:tls'
import { createBackend } from '../../src/backends/backend.ts'
import { Balancer, type BalancerOptions } from '../../src/backends/balancer.ts'

export const balancerOf = (
  urls: readonly string[],
  { tls, ...options }: Partial<BalancerOptions> & { tls?: ConnectionOptions } = {},
): Balancer => {
  const backends = urls.map((url) => createBackend(url, tls))
  return new Balancer(backends, {
    balance: 'least-requests',
    breaker: { waiting: 1_000 },
    connections: 128,
    ...options,
  })
}
