/** A balancer with the defaults of the configuration. */
import { createBackend } from '../../src/backends/backend.ts'
import { Balancer, type BalancerOptions } from '../../src/backends/balancer.ts'

export const balancerOf = (
  urls: readonly string[],
  options: Partial<BalancerOptions> = {},
): Balancer =>
  new Balancer(urls.map(createBackend), {
    balance: 'least-requests',
    breaker: { waiting: 1_000 },
    connections: 128,
    ...options,
  })
