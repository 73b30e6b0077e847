/** What is compared, and the targets. Both sides are of the same run, and of the same round. */

export interface Comparison {
  readonly label: string
  /** ratio: of the total CPU per request, `of` / `to`. added: to the 99th percentile of the latency in ms, `of` - `to`. */
  readonly kind: 'ratio' | 'added'
  /** Names of scenarios. */
  readonly of: string
  readonly to: string
  /** Times the ratio. Default: 1. */
  readonly factor?: number
  readonly atMost?: number
  readonly atLeast?: number
}

const nodePeers = [
  { peer: 'plain', named: 'plain http-proxy-3 wiring', atMost: 0.417 },
  { peer: 'plain-pipelined', named: 'the same wiring, auto-pipelined' },
  { peer: 'fastify', named: 'fastify (one window)' },
  { peer: 'express', named: 'express' },
]

const ratios: readonly Omit<Comparison, 'kind'>[] = [
  {
    label: 'gateway (direct, Redis, leases) / nginx + Lua + Redis',
    of: 'gateway-direct-redis',
    to: 'nginx-lua',
    atMost: 0.85,
  },
  ...nodePeers.map(({ peer, named, ...target }) => ({
    label: `gateway (direct, Redis, leases) / ${named}`,
    of: 'gateway-direct-redis',
    to: peer,
    ...target,
  })),
  {
    label: 'gateway (direct, Redis, leases) / nginx, plain `proxy_pass`',
    of: 'gateway-direct-redis',
    to: 'nginx',
  },
  {
    label: 'gateway (direct, Redis, leases) / `store.lease: off`',
    of: 'gateway-direct-redis',
    to: 'gateway-direct-redis-lease-off',
  },
  {
    label: 'gateway (direct, Redis, leases) / embedded store',
    of: 'gateway-direct-redis',
    to: 'gateway-direct-embedded',
  },
  {
    label: 'gateway (direct, embedded) / plain http-proxy-3 wiring',
    of: 'gateway-direct-embedded',
    to: 'plain',
    atMost: 0.55,
  },
  {
    label: 'gateway (http-proxy-3, Redis, leases) / plain http-proxy-3 wiring',
    of: 'gateway-http-proxy-3-redis',
    to: 'plain',
  },
  {
    label: '429, quota used up / bare node:http',
    of: 'refusal-429',
    to: 'bare-429',
    atMost: 1.35,
  },
  {
    label: '429, banned key / bare node:http',
    of: 'refusal-banned',
    to: 'bare-banned',
    atMost: 1.35,
  },
  { label: '401 / bare node:http', of: 'refusal-401', to: 'bare-401', atMost: 1.35 },
  {
    label: 'capacity of two workers / one, Redis (2 x CPU of one / CPU of two)',
    of: 'gateway-direct-redis',
    to: 'two-workers-redis',
    factor: 2,
    atLeast: 1.7,
  },
  {
    label: 'capacity of two workers / one, embedded (2 x CPU of one / CPU of two)',
    of: 'gateway-direct-embedded',
    to: 'two-workers-embedded',
    factor: 2,
    atLeast: 1.7,
  },
]

export const comparisons: readonly Comparison[] = [
  ...ratios.map((ratio) => ({ kind: 'ratio' as const, ...ratio })),
  {
    kind: 'added',
    label: 'p99 added at half load, gateway (direct, Redis, leases) - nginx, plain `proxy_pass`',
    of: 'half-load-gateway-direct-redis',
    to: 'half-load-nginx',
    atMost: 1,
  },
]
