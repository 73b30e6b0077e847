/** How the processes under test are started: the gateway, its peers, and servers without any policy. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  clientEntries,
  loadedFromHere,
  makeCertificate,
  openPolicy,
  startGateway,
} from './gateway.ts'
import { nginxPeer, type PeerTerms } from './peers/nginx.ts'
import { rssBytes } from './proc.ts'
import { script, type Launched, type Processes } from './processes.ts'
import {
  ampleClients,
  ampleLimits,
  boundlessClient,
  boundlessLimits,
  exhaustedClients,
  exhaustedLimits,
} from './workload.ts'

export interface Subject {
  readonly server: Launched
  readonly redisPid?: number | undefined
  /** Scheme, host and port of the gateway's own metrics. */
  readonly admin?: string
  /** Scheme, host and port of what tells its allocations. */
  readonly probe?: string | undefined
  /** Memory of the server as its start ended. */
  readonly restBytes?: number
}

export interface GatewayVariant {
  /** Default: direct. */
  readonly engine?: 'direct' | 'http-proxy-3'
  readonly store: 'embedded' | 'redis'
  /** Default: auto. */
  readonly lease?: 'auto' | 'off'
  /** Default: 1. */
  readonly workers?: number
  /** Over TLS, with HTTP/2. */
  readonly isSecure?: boolean
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
  { engine = 'direct', store, lease = 'auto', workers = 1, ...variant }: GatewayVariant,
): Promise<Subject> {
  const redis = store === 'redis' ? await processes.redis() : undefined
  const bans = { strikes: 1, within: '1s', grace: '0s', duration: '1h' }
  const tls = variant.isSecure ? makeCertificate(processes.directory) : undefined
  const server = await startGateway(processes, {
    name,
    probe: workers === 1,
    config: {
      ...openPolicy,
      ...(variant.bansAtOnce && { bans }),
      server: { workers, ...loadedFromHere, ...(tls && { tls }) },
      upstream: { urls: [backend], engine },
      store: { redis: redis?.url ?? '', lease },
      // Over HTTP/2 one client sends everything.
      plans: { enterprise: { custom: true, concurrent: 1_000 } },
      clients: [
        ...clientEntries(ampleClients, { limits: ampleLimits }),
        ...clientEntries(exhaustedClients, { limits: exhaustedLimits }),
        ...clientEntries([boundlessClient], { limits: boundlessLimits }),
      ],
    },
  })
  const { admin, probe, pid } = server
  return { server, redisPid: redis?.pid, admin, probe, restBytes: rssBytes(pid) }
}

export const ampleTerms: PeerTerms = {
  plan: 'enterprise',
  limits: ampleLimits,
  clients: ampleClients.map(({ id, sha256 }) => ({ id, sha256 })),
}

export interface FastifyConfig extends PeerTerms {
  /** Scheme, host and port. */
  readonly backend: string
  readonly redis: string
}

export async function fastifySubject(
  processes: Processes,
  { name, backend }: Order,
  terms: PeerTerms,
): Promise<Subject> {
  const redis = await processes.redis()
  const config: FastifyConfig = { backend, redis: redis.url, ...terms }
  const subject = await ownSubject(processes, name, ['peers/fastify-http-proxy.ts'], config)
  return { ...subject, redisPid: redis.pid }
}

export interface NginxVariant {
  /** It keeps these limits, with Lua and Redis. Default: it passes on whatever comes. */
  readonly terms?: PeerTerms
  /** Over TLS, with HTTP/2. */
  readonly isSecure?: boolean
  /** Bodies are passed on as they come, both ways. */
  readonly isUnbuffered?: boolean
}

export async function nginxSubject(
  processes: Processes,
  { name, backend }: Order,
  { terms, isSecure = false, isUnbuffered = false }: NginxVariant = {},
): Promise<Subject> {
  const { directory } = processes
  const redis = terms && (await processes.redis())
  const limited = terms && redis && { terms, redisPort: redis.port }
  const tls = isSecure ? makeCertificate(directory) : undefined
  const order = await nginxPeer({ name, directory, backend, limited, tls, isUnbuffered })
  return { server: await processes.launch(order), redisPid: redis?.pid }
}

/** Starts a server of the bench by its script and arguments; the last one is a file with what it is to know, if there is any. */
export async function ownSubject(
  processes: Processes,
  name: string,
  [file, ...args]: readonly [string, ...string[]],
  known?: object,
): Promise<Subject> {
  const knownFile = join(processes.directory, `${name}.json`)
  if (known) writeFileSync(knownFile, JSON.stringify(known))
  const server = await processes.launch({
    name,
    command: [script(file), ...args, ...(known ? [knownFile] : [])],
    own: true,
    probe: true,
  })
  return { server, probe: await server.listening('probe') }
}

export const bareProxySubject = (
  processes: Processes,
  { name, backend }: Order,
): Promise<Subject> => ownSubject(processes, name, ['peers/bare-proxy.ts', backend])

export const startBackend = (
  processes: Processes,
  { name = 'backend', args = [] }: { name?: string; args?: readonly string[] } = {},
): Promise<Launched> =>
  processes.launch({ name, command: [script('backend.ts'), ...args], own: true })
