/** Backends and a balancer with the defaults of the configuration. */
import type { ConnectionOptions } from 'node:tls'
import { createBackends } from '../../src/core/backends/backend.ts'
import type { Backend, BackendOptions } from '../../src/core/backends/backend.ts'
import { Balancer } from '../../src/core/backends/balancer.ts'
import type { BackendObserver, BalancerOptions } from '../../src/core/backends/balancer.ts'
import { Retries } from '../../src/core/forwarding/retries.ts'

/** An attempt that nobody listens to. */
export const unreachable = {
  kind: 'unreachable',
  cause: 'ECONNREFUSED',
  phase: 'connecting',
  bodyTouched: false,
  reusedConnection: false,
  answerBegun: false,
} as const

export const eject: BackendOptions['eject'] = {
  failures: 5,
  withinMs: 10_000,
  forMs: 10_000,
  growth: 2,
  maxForMs: 300_000,
  atMost: 0.5,
}

type Options = Partial<BalancerOptions & BackendOptions> & { readonly tls?: ConnectionOptions }

const backendsOf = (urls: readonly string[], { tls, ...options }: Options): Backend[] =>
  createBackends({ eject, health: undefined, ...options, urls }, tls)

export const backendOf = (url: string, options: Options = {}): Backend =>
  backendsOf([url], options)[0] as Backend

export const balancerOf = (
  urls: readonly string[],
  options: Options = {},
  observer?: BackendObserver,
): Balancer =>
  new Balancer(
    backendsOf(urls, options),
    { balance: 'least-requests', breaker: { waiting: 1_000 }, connections: 128, ...options },
    observer,
  )

export const retriesOf = ({ backends }: Balancer, retry = { attempts: 1, budget: 0.1 }): Retries =>
  new Retries({ retry, connections: 128, urls: backends.map(({ name }) => name) })
