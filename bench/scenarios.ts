/** What is measured: each scenario says what load it gets and starts, or borrows, the processes under test. */
import type { Launched, Processes } from './processes.ts'
import { bareRefusal, gateway, nginxPeer, nodePeer } from './subjects.ts'
import type { Answer } from './verify.ts'

/**
 * served: keys with quota. exhausted: keys whose day is used up, 429. banned: keys that went on after that, 429 too.
 * unknown: keys nobody knows, 401.
 */
export type Load = 'served' | 'exhausted' | 'banned' | 'unknown'

export interface Subject {
  readonly server: Launched
  readonly redisPid: number | undefined
  /** Scheme, host and port of the gateway's own metrics. */
  readonly admin?: string
}

export interface World {
  readonly processes: Processes
  readonly backend: Launched
  /** The refusal that another scenario was seen to give. */
  readonly answerOf: (scenario: string) => Answer
  /** The running processes of another scenario. */
  readonly subjectOf: (scenario: string) => Subject
}

export interface Scenario {
  readonly name: string
  readonly label: string
  readonly load: Load
  /** limits: key check, quota, the client's name passed on and the key not. forwards: the request passed on as it is. */
  readonly job: 'limits' | 'forwards' | 'none'
  /** Processes that count for themselves; with several, Remaining need not fall by exactly one. Default: 1. */
  readonly processes?: number
  /** Repeats the answer of this scenario, byte for byte. */
  readonly repeats?: string
  /** The processes of another scenario, at half the rate that the gateway's scenario reached in the same round. */
  readonly halfLoad?: { readonly subject: string; readonly ofRate: string }
  start(world: World): Promise<Subject>
}

const backendAlone: Scenario = {
  name: 'backend',
  label: 'bare backend, no gateway',
  load: 'served',
  job: 'none',
  start: ({ backend }) => Promise.resolve({ server: backend, redisPid: undefined }),
}

const plainNginx = nginxPeer('nginx', 'nginx, plain `proxy_pass`, no limits', 'forwards')

const peers = [
  plainNginx,
  nginxPeer('nginx-lua', 'nginx + Lua + Redis', 'limits'),
  nodePeer(
    'fastify',
    'fastify + http-proxy + rate-limit, one window, Redis',
    'fastify-http-proxy.ts',
    { pipelined: true },
  ),
  nodePeer('plain', 'plain wiring: http-proxy-3 + two RateLimiterRedis', 'plain-http-proxy.ts'),
  nodePeer('plain-pipelined', 'the same with auto-pipelining in ioredis', 'plain-http-proxy.ts', {
    pipelined: true,
  }),
  nodePeer(
    'express',
    'express + http-proxy-middleware + two express-rate-limit, Redis',
    'express-http-proxy-middleware.ts',
    { pipelined: true },
  ),
]

const direct = { load: 'served', engine: 'direct' } as const

const leasing = gateway({
  name: 'gateway-direct-redis',
  label: 'gateway, direct, Redis with leases',
  ...direct,
  store: 'redis',
})

const gateways = [
  leasing,
  gateway({
    name: 'gateway-direct-redis-lease-off',
    label: 'gateway, direct, Redis, `store.lease: off`',
    ...direct,
    store: 'redis',
    lease: 'off',
  }),
  gateway({
    name: 'gateway-direct-embedded',
    label: 'gateway, direct, embedded store',
    ...direct,
    store: 'embedded',
  }),
  gateway({
    name: 'gateway-http-proxy-3-redis',
    label: 'gateway, http-proxy-3, Redis with leases',
    load: 'served',
    engine: 'http-proxy-3',
    store: 'redis',
  }),
  gateway({
    name: 'two-workers-redis',
    label: 'gateway, two workers, direct, Redis with leases',
    ...direct,
    store: 'redis',
    workers: 2,
  }),
  gateway({
    name: 'two-workers-embedded',
    label: 'gateway, two workers, direct, embedded store',
    ...direct,
    store: 'embedded',
    workers: 2,
  }),
]

const refusals = [
  gateway({
    name: 'refusal-429',
    label: 'gateway, 429 (quota used up, each a strike)',
    load: 'exhausted',
    engine: 'direct',
    store: 'embedded',
  }),
  gateway({
    name: 'refusal-banned',
    label: 'gateway, 429 (banned key)',
    load: 'banned',
    engine: 'direct',
    store: 'embedded',
    bansAtOnce: true,
  }),
  gateway({
    name: 'refusal-401',
    label: 'gateway, 401 (unknown key)',
    load: 'unknown',
    engine: 'direct',
    store: 'embedded',
  }),
]

function atHalfLoad({ name, label, load, job }: Scenario): Scenario {
  return {
    name: `half-load-${name}`,
    label,
    load,
    job,
    halfLoad: { subject: name, ofRate: leasing.name },
    start: ({ subjectOf }) => Promise.resolve(subjectOf(name)),
  }
}

export const scenarios: readonly Scenario[] = [
  backendAlone,
  ...peers,
  ...gateways,
  ...refusals.flatMap((refusal) => [refusal, bareRefusal(refusal)]),
  atHalfLoad(leasing),
  atHalfLoad(plainNginx),
]

/**
 * The scenarios whose name contains one of the words, and those they build on; all where there are no words.
 * Throws where a word matches nothing.
 */
export function selectScenarios(words: readonly string[]): readonly Scenario[] {
  if (words.length === 0) return scenarios
  for (const word of words) {
    if (!scenarios.some(({ name }) => name.includes(word)))
      throw new Error(
        `--only ${word} matches no scenario; there are ${scenarios.map(({ name }) => name).join(', ')}`,
      )
  }
  const wanted = scenarios.filter(({ name }) => words.some((word) => name.includes(word)))
  const names = new Set(
    wanted.flatMap(({ name, repeats, halfLoad }) => [
      name,
      repeats ?? name,
      halfLoad?.subject ?? name,
      halfLoad?.ofRate ?? name,
    ]),
  )
  return scenarios.filter(({ name }) => names.has(name))
}
