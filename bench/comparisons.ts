/** What is compared, and the targets. Both sides are of the same run. */
import type { Figure } from './report.ts'

export interface Comparison {
  readonly label: string
  /** Names of scenarios: `of` / `to`. Without `to`: the figure itself. */
  readonly of: string
  readonly to?: string
  /** Default: the total CPU per request. */
  readonly figure?: Figure
  /** What the figure is in. A ratio has none; of two scenarios with one it is the difference. */
  readonly unit?: string
  readonly atMost?: number
  /** The target on a machine that does nothing else. */
  readonly quiet?: number
}

const [leasing, embedded] = ['gateway-direct-redis', 'gateway-direct-embedded']
const [redisGateway, embeddedGateway] = ['gateway (Redis, leases)', 'gateway (embedded)']
const sameBytes = 'bare server of the same bytes'
const halfLoad = { figure: 'p99Ms', of: `half-load-${leasing}`, unit: 'ms' } as const

const ratio = (label: string, of: string, to: string, atMost?: number): Comparison => ({
  label,
  of,
  to,
  ...(atMost !== undefined && { atMost }),
})

const value = (
  label: string,
  of: string,
  figure: Figure,
  [atMost, unit]: readonly [number, string],
): Comparison => ({ label, of, figure, atMost, unit })

export const comparisons: readonly Comparison[] = [
  { ...ratio(`${redisGateway} / nginx + Lua + Redis`, leasing, 'nginx-lua', 0.75), quiet: 0.5 },
  ratio(`${redisGateway} / fastify (one window)`, leasing, 'fastify'),
  ratio(`${redisGateway} / nginx, plain \`proxy_pass\``, leasing, 'nginx', 2.6),
  ratio(`${redisGateway} / \`store.lease: off\``, leasing, `${leasing}-lease-off`),
  ratio(`${embeddedGateway} / ${redisGateway}`, embedded, leasing, 0.95),
  ratio(`gateway (http-proxy-3) / ${redisGateway}`, 'gateway-http-proxy-3-redis', leasing),
  ratio(`${embeddedGateway} / bare proxy`, embedded, 'proxy-net'),
  { ...ratio('bytes allocated, the same', embedded, 'proxy-net'), figure: 'allocatedBytes' },
  value(`bytes allocated, ${redisGateway}`, leasing, 'allocatedBytes', [9_000, 'bytes']),
  value(`bytes allocated, ${embeddedGateway}`, embedded, 'allocatedBytes', [9_000, 'bytes']),
  ratio(`429, quota used up / ${sameBytes}`, 'refusal-429', 'bare-429', 1.2),
  ratio(`429, banned key / ${sameBytes}`, 'refusal-banned', 'bare-banned', 1.2),
  ratio(`401 / ${sameBytes}`, 'refusal-401', 'bare-401', 1.2),
  ratio('two workers / one, Redis', 'two-workers-redis', leasing, 1.08),
  ratio('two workers / one, embedded', 'two-workers-embedded', embedded, 1.08),
  { ...halfLoad, label: 'p99 at half load - bare proxy', to: 'half-load-proxy-net', atMost: 2 },
  { ...halfLoad, label: 'p99 at half load - nginx', to: 'half-load-nginx' },
  ratio('over TLS, gateway / nginx', 'gateway-tls', 'nginx-tls', 2),
  ratio('over HTTP/2, gateway / nginx', 'gateway-http2', 'nginx-http2', 2.2),
  ratio('10 MiB down, gateway / nginx', 'bodies-gateway-down', 'bodies-nginx-down', 1.2),
  ratio('10 MiB up, gateway / nginx', 'bodies-gateway-up', 'bodies-nginx-up', 1.5),
  value('memory above rest, 64 down', 'bodies-64-down', 'grownMiB', [64, 'MiB']),
  value('memory above rest, 64 up', 'bodies-64-up', 'grownMiB', [64, 'MiB']),
  value('`npm start` to the first answer', 'start', 'startSeconds', [0.6, 's']),
  value('CPU of `tollgate check`', 'start', 'checkSeconds', [0.35, 's']),
  value('memory of `npm start` at rest', 'start', 'restMB', [90, 'MB']),
]
