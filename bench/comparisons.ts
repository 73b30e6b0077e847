/** What is compared, and the targets. Both sides are of the same run. */

export interface Comparison {
  readonly label: string
  /**
   * cpu: the total CPU per request, `of` / `to`. allocated: the bytes allocated per request, `of` / `to`.
   * added: to the 99th percentile of the latency in ms, `of` - `to`.
   */
  readonly kind: 'cpu' | 'allocated' | 'added'
  /** Names of scenarios. */
  readonly of: string
  readonly to: string
  /** Times the ratio. Default: 1. */
  readonly factor?: number
  readonly atMost?: number
  readonly atLeast?: number
}

type Target = Pick<Comparison, 'factor' | 'atMost' | 'atLeast'>

const ratio = (label: string, of: string, to: string, target: Target = {}): Comparison => ({
  label,
  kind: 'cpu',
  of,
  to,
  ...target,
})

const [leasing, embedded] = ['gateway-direct-redis', 'gateway-direct-embedded']

/** Of the gateway with Redis to each of these. */
const others: readonly (readonly [to: string, label: string, target?: Target])[] = [
  ['nginx-lua', 'nginx + Lua + Redis', { atMost: 0.85 }],
  ['fastify', 'fastify (one window)'],
  ['nginx', 'nginx, plain `proxy_pass`'],
  ['gateway-direct-redis-lease-off', '`store.lease: off`'],
  [embedded, 'embedded store'],
]

export const comparisons: readonly Comparison[] = [
  ...others.map(([to, label, target]) =>
    ratio(`gateway (direct, Redis, leases) / ${label}`, leasing, to, target),
  ),
  ratio(
    'gateway (http-proxy-3, Redis, leases) / gateway (direct, Redis, leases)',
    'gateway-http-proxy-3-redis',
    leasing,
  ),
  ratio('gateway (direct, embedded) / bare proxy on `node:http`', embedded, 'proxy-http'),
  ratio('gateway (direct, embedded) / bare proxy on `node:net`', embedded, 'proxy-net'),
  ratio('429, quota used up / bare node:http', 'refusal-429', 'bare-429', { atMost: 1.35 }),
  ratio('429, banned key / bare node:http', 'refusal-banned', 'bare-banned', { atMost: 1.35 }),
  ratio('401 / bare node:http', 'refusal-401', 'bare-401', { atMost: 1.35 }),
  ...(['Redis', 'embedded'] as const).map((store) =>
    ratio(
      `capacity of two workers / one, ${store} (2 x CPU of one / CPU of two)`,
      store === 'Redis' ? leasing : embedded,
      `two-workers-${store.toLowerCase()}`,
      { factor: 2, atLeast: 1.7 },
    ),
  ),
  ...(['http', 'net'] as const).map((kind) => ({
    label: `bytes allocated, gateway (direct, embedded) / bare proxy on \`node:${kind}\``,
    kind: 'allocated' as const,
    of: embedded,
    to: `proxy-${kind}`,
  })),
  {
    kind: 'added',
    label: 'p99 added at half load, gateway (direct, Redis, leases) - bare proxy on `node:net`',
    of: `half-load-${leasing}`,
    to: 'half-load-proxy-net',
  },
  {
    kind: 'added',
    label: 'p99 added at half load, gateway (direct, Redis, leases) - nginx, plain `proxy_pass`',
    of: `half-load-${leasing}`,
    to: 'half-load-nginx',
    atMost: 1,
  },
]
