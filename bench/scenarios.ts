/** What is measured: each scenario says what load it gets and starts, or borrows, the processes under test. */
import { namesWith } from './command.ts'
import type { LoadOrder } from './load-order.ts'
import { needed } from './peers/nginx.ts'
import type { Launched, Processes } from './processes.ts'
import type { Round, TableName } from './report.ts'
import { measureStart } from './starts.ts'
import {
  ampleTerms,
  bareProxySubject,
  fastifySubject,
  gatewaySubject,
  nginxSubject,
  ownSubject,
  type GatewayVariant,
  type NginxVariant,
  type Subject,
} from './subjects.ts'
import type { Answer } from './verify.ts'
import { bigBytes, bigPath, boundlessClient } from './workload.ts'

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
  /** Where its figures are shown. */
  readonly table: TableName
  readonly load: Load
  /** What its requests have that those of others do not. */
  readonly traffic?: Partial<LoadOrder>
  /** limits: key check, quota, the client's name passed on and the key not. forwards: the request passed on as it is. */
  readonly job: 'limits' | 'forwards' | 'none'
  /** Processes that count for themselves; with several, Remaining need not fall by exactly one. Default: 1. */
  readonly processes?: number
  /** Repeats the answer of this scenario, byte for byte. */
  readonly repeats?: string
  /** It has the processes of this scenario. */
  readonly borrows?: string
  /** Its rate is half of what this scenario reached in the same round. Default: as fast as it is answered. */
  readonly halfRateOf?: string
  /** undefined: it starts what it measures in each round. */
  start(world: World): Promise<Subject | undefined>
  /** A round without a load. */
  measure?(processes: Processes): Promise<Round>
}

type Start = (processes: Processes, order: { name: string; backend: string }) => Promise<Subject>

const usual = { table: 'scenario', load: 'served', job: 'none' } as const

const served = (name: string, label: string, job: Scenario['job'], start: Start): Scenario => ({
  ...usual,
  name,
  label,
  job,
  start: ({ processes, backend }) => start(processes, { name, backend: backend.origin }),
})

/** The processes of another scenario, with other traffic. */
const borrowing = (
  name: string,
  label: string,
  { name: borrows, load, job }: Scenario,
  more: Pick<Scenario, 'table' | 'traffic' | 'halfRateOf'>,
): Scenario => ({
  name,
  label,
  load,
  job,
  borrows,
  ...more,
  start: ({ subjectOf }) => Promise.resolve(subjectOf(borrows)),
})

const backendAlone: Scenario = {
  ...usual,
  name: 'backend',
  label: 'bare backend, no gateway',
  start: ({ backend }) => Promise.resolve({ server: backend }),
}

const nginx = (name: string, label: string, variant: NginxVariant = {}): Scenario =>
  served(name, label, variant.terms ? 'limits' : 'forwards', (...at) =>
    nginxSubject(...at, variant),
  )

const gateway = (name: string, label: string, variant: GatewayVariant): Scenario => ({
  ...served(name, `gateway, ${label}`, 'limits', (...at) => gatewaySubject(...at, variant)),
  processes: variant.workers ?? 1,
})

const plainNginx = nginx('nginx', 'nginx, plain `proxy_pass`, no limits')
const bareProxy = served('proxy-net', 'bare proxy, no policy', 'forwards', bareProxySubject)
const [redis, embedded] = [{ store: 'redis' }, { store: 'embedded' }] as const
const leasing = gateway('gateway-direct-redis', 'direct, Redis with leases', redis)

const gateways = [
  leasing,
  gateway('gateway-direct-redis-lease-off', 'direct, Redis, `store.lease: off`', {
    ...redis,
    lease: 'off',
  }),
  gateway('gateway-direct-embedded', 'direct, embedded store in memory', embedded),
  gateway('gateway-http-proxy-3-redis', 'http-proxy-3, Redis with leases', {
    ...redis,
    engine: 'http-proxy-3',
  }),
  gateway('two-workers-redis', 'two workers, direct, Redis with leases', { ...redis, workers: 2 }),
  gateway('two-workers-embedded', 'two workers, direct, embedded store in memory', {
    ...embedded,
    workers: 2,
  }),
]

/** The gateway's refusal, and a bare server that sends the same bytes. */
function refusal(what: string, label: string, load: Load): readonly [Scenario, Scenario] {
  const [name, bare] = [`refusal-${what}`, `bare-${what}`]
  const variant = { ...embedded, bansAtOnce: load === 'banned' }
  return [
    { ...gateway(name, label, variant), load },
    {
      ...usual,
      name: bare,
      label: 'bare node:http, the bytes of the row above',
      load,
      repeats: name,
      start: ({ processes, answerOf }) =>
        ownSubject(processes, bare, ['fixed-answer.ts'], answerOf(name)),
    },
  ]
}

const tls = { traffic: { over: 'tls' } } as const
const nginxTls = { ...nginx('nginx-tls', 'nginx over TLS', { isSecure: true }), ...tls }
const gatewayTls = {
  ...gateway('gateway-tls', 'direct, Redis with leases, over TLS', { ...redis, isSecure: true }),
  ...tls,
}

/** One client asks for everything: h2load sends all requests with the same header. */
function http2(name: string, label: string, other: Scenario): Scenario {
  const traffic = { over: 'http2', keys: [boundlessClient.key] } as const
  const start: Scenario['start'] = async ({ subjectOf }) => {
    needed('h2load', 'nghttp2-client')
    return subjectOf(other.name)
  }
  return { ...borrowing(name, label, other, { table: 'scenario', traffic }), start }
}

/** Bodies down and up, so many at once; both with a server of their own, whose memory has seen nothing else. */
function bodies(count: number, subject: (way: string) => Scenario): Scenario[] {
  const down = { path: bigPath, expect: { status: 200, bodyBytes: bigBytes } }
  return Object.entries({ down, up: { uploadBytes: bigBytes } }).map(([way, traffic]) => ({
    ...subject(way),
    table: 'bodies of 10 MiB',
    traffic: { ...traffic, connections: count },
  }))
}

const start: Scenario = {
  ...usual,
  name: 'start',
  label: '`npm start`',
  table: 'start',
  // What it compiles is kept from then on.
  start: async ({ processes }) => void (await measureStart(processes)),
  measure: measureStart,
}

const atHalfLoad = (other: Scenario): Scenario =>
  borrowing(`half-load-${other.name}`, other.label, other, {
    table: 'at half load',
    halfRateOf: leasing.name,
  })

export const scenarios: readonly Scenario[] = [
  backendAlone,
  plainNginx,
  nginx('nginx-lua', 'nginx + Lua + Redis', { terms: ampleTerms }),
  served('fastify', 'fastify + http-proxy + rate-limit, one window, Redis', 'limits', (...at) =>
    fastifySubject(...at, ampleTerms),
  ),
  bareProxy,
  ...gateways,
  nginxTls,
  gatewayTls,
  http2('nginx-http2', 'nginx over HTTP/2', nginxTls),
  http2('gateway-http2', 'gateway, direct, Redis with leases, over HTTP/2', gatewayTls),
  ...refusal('429', '429 (quota used up, each a strike)', 'exhausted'),
  ...refusal('banned', '429 (banned key)', 'banned'),
  ...refusal('401', '401 (unknown key)', 'unknown'),
  atHalfLoad(leasing),
  atHalfLoad(bareProxy),
  atHalfLoad(plainNginx),
  ...bodies(10, (way) =>
    nginx(`bodies-nginx-${way}`, `nginx without buffering, ten ${way}`, { isUnbuffered: true }),
  ),
  ...bodies(10, (way) => gateway(`bodies-gateway-${way}`, `direct, ten ${way}`, embedded)),
  ...bodies(64, (way) => gateway(`bodies-64-${way}`, `direct, 64 ${way}`, embedded)),
  start,
]

/** The scenarios that `--only` names, and those they build on. */
export function selectScenarios(only: string): readonly Scenario[] {
  const all = scenarios.map(({ name }) => name)
  const chosen = namesWith(only, all)
  const wanted = scenarios.filter(({ name }) => chosen.includes(name))
  const names = new Set<unknown>(
    wanted.flatMap((one) => [one.name, one.repeats, one.borrows, one.halfRateOf]),
  )
  return scenarios.filter(({ name }) => names.has(name))
}
