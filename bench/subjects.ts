/** How the processes under test are started: the gateway, its peers, and servers without any policy. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { clientEntries, loadedFromHere, openPolicy, startGateway } from './gateway.ts'
import { nginxPeer, type PeerTerms } from './peers/nginx.ts'
import { script, type Launched, type Processes } from './processes.ts'
import type { Answer } from './verify.ts'
import { ampleClients, ampleLimits, exhaustedClients, exhaustedLimits } from './workload.ts'

export interface Subject {
  readonly server: Launched
  readonly redisPid?: number | undefined
  /** Scheme, host and port of the gateway's own metrics. */
  readonly admin?: string
  /** Scheme, host and port of what tells its allocations. */
  readonly probe?: string | undefined
}

export interface GatewayVariant {
  /** Default: direct. */
  readonly engine?: 'direct' | 'http-proxy-3'
  readonly store: 'embedded' | 'redis'
  /** Default: auto. */
  readonly lease?: 'auto' | 'off'
  /** Default: 1. */
  readonly workers?: number
  /** A key that goes on after its first 429 is banned for longer than the bench lasts. Default: no key is ever banned. */
  readonly bansAtOnce?: boolean
}

interface Order {
  readonly name: string
  /** Scheme, host and port. */
  readonly backend: string
}

export async function gatewaySubject(
  processes: Processes,
  { name, backend }: Order,
  variant: GatewayVariant,
): Promise<Subject> {
  const { engine = 'direct', store, lease = 'auto', workers = 1, bansAtOnce = false } = variant
  const redis = store === 'redis' ? await processes.redis() : undefined
  const server = await startGateway(processes, {
    name,
    probe: workers === 1,
    config: {
      ...openPolicy,
      ...(bansAtOnce && { bans: { strikes: 1, within: '1s', grace: '0s', duration: '1h' } }),
      server: { workers, ...loadedFromHere },
      upstream: { urls: [backend], engine },
      store: { redis: redis?.url ?? '', lease },
      clients: [
        ...clientEntries(ampleClients, { limits: ampleLimits }),
        ...clientEntries(exhaustedClients, { limits: exhaustedLimits }),
      ],
    },
  })
  return { server, redisPid: redis?.pid, admin: server.admin, probe: server.probe }
}

export const ampleTerms: PeerTerms = {
  plan: 'enterprise',
  limits: ampleLimits,
  clients: ampleClients.map(({ id, sha256 }) => ({ id, sha256 })),
}

export async function fastifySubject(
  processes: Processes,
  { name, backend }: Order,
  terms: PeerTerms,
): Promise<Subject> {
  const redis = await processes.redis()
  const config: FastifyConfig = { backend, redis: redis.url, ...terms }
  const file = join(processes.directory, `${name}.json`)
  writeFileSync(file, JSON.stringify(config))
  const names = { name, listener: 'fastify' }
  const subject = await ownSubject(processes, names, ['peers/fastify-http-proxy.ts', file])
  return { ...subject, redisPid: redis.pid }
}

/** terms: undefined: it passes on whatever comes. */
export async function nginxSubject(
  processes: Processes,
  { name, backend }: Order,
  terms: PeerTerms | undefined,
): Promise<Subject> {
  const redis = terms && (await processes.redis())
  const limited = terms && redis && { terms, redisPort: redis.port }
  const order = await nginxPeer({ name, directory: processes.directory, backend }, limited)
  return { server: await processes.launch(order), redisPid: redis?.pid }
}

/** A bare node:http server with the bytes that another subject was seen to send. */
export function fixedAnswerSubject(
  processes: Processes,
  name: string,
  answer: Answer,
): Promise<Subject> {
  const file = join(processes.directory, `${name}.json`)
  writeFileSync(file, JSON.stringify(answer))
  return ownSubject(processes, { name, listener: 'fixed-answer' }, ['fixed-answer.ts', file])
}

export const bareProxySubject = (
  processes: Processes,
  { name, backend }: Order,
  kind: 'http' | 'net',
): Promise<Subject> =>
  ownSubject(processes, { name, listener: 'bare-proxy' }, ['peers/bare-proxy.ts', kind, backend])

export async function ownSubject(
  processes: Processes,
  names: { readonly name: string; readonly listener: string },
  [file, ...args]: readonly [string, ...string[]],
): Promise<Subject> {
  const command = [script(file), ...args] as const
  const order = { ...names, command: [...command] as [string, ...string[]], own: true }
  const server = await processes.launch({ ...order, probe: true })
  return { server, probe: await server.listening('probe') }
}

export const startBackend = (
  processes: Processes,
  { name = 'backend', args = [] }: { name?: string; args?: readonly string[] } = {},
): Promise<Launched> =>
  processes.launch({
    name,
    command: [script('backend.ts'), ...args],
    listener: 'backend',
    own: true,
  })
