/** Backends and a balancer with the defaults of the configuration. */
import type { ConnectionOptions } from 'node:tls'
import { createBackends } from '../../src/core/backends/backend.ts'
import type { Backend, BackendOptions } from '../../src/core/backends/backend.ts'
import { Balancer } from '../../src/core/backends/balancer.ts'
import type { BackendObserver, BalancerOptions } from '../../src/core/backends/balancer.ts'
import type { EngineOptions } from '../../src/core/forwarding/engine.ts'
import { Retries } from '../../src/core/forwarding/retries.ts'
import { upstream } from '../../src/config/upstream.ts'

/** An attempt that nobody listens to. */
export const unreachable = {
  kind: 'unreachable',
  cause: 'ECONNREFUSED',
  phase: 'connecting',
  bodyTouched: false,
  reusedConnection: false,
  answerBegun: false,
} as const

const defaults = upstream.parse({})
export const { eject } = defaults

/** Few connections, which no test wears out. */
export const engineOptions: EngineOptions = {
  ...defaults,
  connections: 8,
  connectionUses: 1_000_000,
  timeouts: { connectMs: 2_000, responseMs: 10_000, idleMs: 10_000 },
}

type Options = Partial<BalancerOptions & BackendOptions> & { readonly tls?: ConnectionOptions }

const backendsOf = (urls: readonly string[], { tls, ...options }: Options): Backend[] =>
  createBackends({ ...defaults, ...options, urls }, tls)

export const backendOf = (url: string, options: Options = {}): Backend =>
  backendsOf([url], options)[0] as Backend

export const balancerOf = (
  urls: readonly string[],
  options: Options = {},
  observer?: BackendObserver,
): Balancer => new Balancer(backendsOf(urls, options), { ...defaults, ...options }, observer)

export const retriesOf = ({ backends }: Balancer, retry = { attempts: 1, budget: 0.1 }): Retries =>
  new Retries({ ...defaults, retry, urls: backends.map(({ name }) => name) })
