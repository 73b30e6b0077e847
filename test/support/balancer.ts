/** Backends and a balancer with the defaults of the configuration. */
import type { ConnectionOptions } from 'node:tls'
import {
  createBackend,
  type Backend,
  type BackendOptions,
} from '../../src/core/backends/backend.ts'
import {
  Balancer,
  type BackendObserver,
  type BalancerOptions,
} from '../../src/core/backends/balancer.ts'
import { Retries } from '../../src/core/forwarding/retries.ts'

export const eject: BackendOptions['eject'] = {
  failures: 5,
  withinMs: 10_000,
  forMs: 10_000,
  growth: 2,
  maxForMs: 300_000,
  atMost: 0.5,
}

type Options = Partial<BalancerOptions & BackendOptions> & { readonly tls?: ConnectionOptions }

export const backendOf = (url: string, { tls, ...options }: Options = {}): Backend =>
  createBackend(url, { eject, health: undefined, ...options }, tls)

export const balancerOf = (
  urls: readonly string[],
  options: Options = {},
  observer?: BackendObserver,
): Balancer =>
  new Balancer(
    urls.map((url) => backendOf(url, options)),
    { balance: 'least-requests', breaker: { waiting: 1_000 }, connections: 128, ...options },
    observer,
  )

export const retriesOf = ({ backends }: Balancer, retry = { attempts: 1, budget: 0.1 }): Retries =>
  new Retries({ retry, connections: 128, urls: backends.map(({ name }) => name) })
