/** What is measured: each scenario says what load it gets and starts, or borrows, the processes under test. */
import type { Launched, Processes } from './processes.ts'
import {
  ampleTerms,
  bareProxySubject,
  fastifySubject,
  fixedAnswerSubject,
  gatewaySubject,
  nginxSubject,
  type GatewayVariant,
  type Subject,
} from './subjects.ts'
import type { Answer } from './verify.ts'

/**
 * served: keys with quota. exhausted: keys whose day is used up, 429. banned: keys that went on after that, 429 too.
 * unknown: keys nobody knows, 401.
 */
export type Load = 'served' | 'exhausted' | 'banned' | 'unknown'

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

const served = (
  name: string,
  label: string,
  job: Scenario['job'],
  start: (processes: Processes, order: { name: string; backend: string }) => Promise<Subject>,
): Scenario => ({
  name,
  label,
  load: 'served',
  job,
  start: ({ processes, backend }) => start(processes, { name, backend: backend.origin }),
})

const backendAlone: Scenario = {
  name: 'backend',
  label: 'bare backend, no gateway',
  load: 'served',
  job: 'none',
  start: ({ backend }) => Promise.resolve({ server: backend }),
}

const plainNginx = served('nginx', 'nginx, plain `proxy_pass`, no limits', 'forwards', (...at) =>
  nginxSubject(...at, undefined),
)

const bareProxy = (kind: 'http' | 'net'): Scenario =>
  served(`proxy-${kind}`, `bare proxy on \`node:${kind}\`, no policy`, 'forwards', (...at) =>
    bareProxySubject(...at, kind),
  )

const peers = [
  plainNginx,
  served('nginx-lua', 'nginx + Lua + Redis', 'limits', (...at) => nginxSubject(...at, ampleTerms)),
  served('fastify', 'fastify + http-proxy + rate-limit, one window, Redis', 'limits', (...at) =>
    fastifySubject(...at, ampleTerms),
  ),
]

const gateway = (name: string, label: string, variant: GatewayVariant): Scenario => ({
  ...served(name, label, 'limits', (...at) => gatewaySubject(...at, variant)),
  processes: variant.workers ?? 1,
})

const leasing = gateway('gateway-direct-redis', 'gateway, direct, Redis with leases', {
  store: 'redis',
})

const gateways = [
  leasing,
  gateway('gateway-direct-redis-lease-off', 'gateway, direct, Redis, `store.lease: off`', {
    store: 'redis',
    lease: 'off',
  }),
  gateway('gateway-direct-embedded', 'gateway, direct, embedded store', { store: 'embedded' }),
  gateway('gateway-http-proxy-3-redis', 'gateway, http-proxy-3, Redis with leases', {
    engine: 'http-proxy-3',
    store: 'redis',
  }),
  gateway('two-workers-redis', 'gateway, two workers, direct, Redis with leases', {
    store: 'redis',
    workers: 2,
  }),
  gateway('two-workers-embedded', 'gateway, two workers, direct, embedded store', {
    store: 'embedded',
    workers: 2,
  }),
]

/** The gateway's refusal, and a bare server that sends the same bytes. */
function refusal(what: string, label: string, load: Load): readonly [Scenario, Scenario] {
  const [name, bare] = [`refusal-${what}`, `bare-${what}`]
  const variant = { store: 'embedded', bansAtOnce: load === 'banned' } as const
  return [
    { ...gateway(name, label, variant), load },
    {
      name: bare,
      label: 'bare node:http, the bytes of the row above',
      load,
      job: 'none',
      repeats: name,
      start: ({ processes, answerOf }) => fixedAnswerSubject(processes, bare, answerOf(name)),
    },
  ]
}

const atHalfLoad = ({ name, label, load, job }: Scenario): Scenario => ({
  name: `half-load-${name}`,
  label,
  load,
  job,
  halfLoad: { subject: name, ofRate: leasing.name },
  start: ({ subjectOf }) => Promise.resolve(subjectOf(name)),
})

const bareNet = bareProxy('net')

export const scenarios: readonly Scenario[] = [
  backendAlone,
  ...peers,
  bareProxy('http'),
  bareNet,
  ...gateways,
  ...refusal('429', 'gateway, 429 (quota used up, each a strike)', 'exhausted'),
  ...refusal('banned', 'gateway, 429 (banned key)', 'banned'),
  ...refusal('401', 'gateway, 401 (unknown key)', 'unknown'),
  atHalfLoad(leasing),
  atHalfLoad(bareNet),
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
  const names = new Set<unknown>(
    wanted.flatMap((one) => [one.name, one.repeats, one.halfLoad?.subject, one.halfLoad?.ofRate]),
  )
  return scenarios.filter(({ name }) => names.has(name))
}
