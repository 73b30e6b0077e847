/** How the processes under test are started: the gateway, the peers, and the servers that only repeat an answer. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gatewayConfig, type GatewayVariant } from './gateway-config.ts'
import { nginx } from './peers/nginx.ts'
import type { PeerConfig } from './peers/peer.ts'
import type { LaunchOrder } from './processes.ts'
import type { Scenario, Subject, World } from './scenarios.ts'
import { ampleClients, ampleLimits } from './workload.ts'

const script = (name: string): string => join(import.meta.dirname, name)

export type GatewayRow = Pick<Scenario, 'name' | 'label' | 'load'> &
  Omit<GatewayVariant, 'redis' | 'backend'> & { readonly store: 'embedded' | 'redis' }

export function gateway({ name, label, load, store, ...variant }: GatewayRow): Scenario {
  return {
    name,
    label,
    load,
    job: 'limits',
    processes: variant.workers ?? 1,
    start: async ({ processes, backend }) => {
      const redis = store === 'redis' ? await processes.redis() : undefined
      const file = join(processes.directory, `${name}.yaml`)
      writeFileSync(file, gatewayConfig({ ...variant, redis: redis?.url, backend: backend.origin }))
      const server = await processes.launch({
        name,
        command: [script('../src/main.ts'), 'start', '--config', file],
        listener: 'tollgate',
        own: false,
      })
      return { server, redisPid: redis?.pid, admin: await server.listening('admin') }
    },
  }
}

/** A server in Node.js, `peers/FILE`; it announces itself under the first word of that name. */
export function nodePeer(
  name: string,
  label: string,
  file: string,
  { pipelined = false } = {},
): Scenario {
  return {
    name,
    label,
    load: 'served',
    job: 'limits',
    start: async (world) => {
      const redis = await world.processes.redis()
      const config: PeerConfig = {
        backend: world.backend.origin,
        redis: redis.url,
        pipelined,
        ...customers,
      }
      const configFile = join(world.processes.directory, `${name}.json`)
      writeFileSync(configFile, JSON.stringify(config))
      const server = await launchOwn(world, {
        name,
        listener: file.replace(/-.*/, ''),
        command: [script(`peers/${file}`), configFile],
      })
      return { server, redisPid: redis.pid }
    },
  }
}

export function nginxPeer(name: string, label: string, job: 'limits' | 'forwards'): Scenario {
  return {
    name,
    label,
    load: 'served',
    job,
    start: async ({ processes, backend }) => {
      const order = (redisPort: number) =>
        nginx({
          name,
          directory: processes.directory,
          backend: backend.origin,
          limits: job === 'limits' ? { ...customers, redisPort } : undefined,
        })
      const redis = job === 'limits' ? await processes.redis() : undefined
      const server = await processes.launch(await order(redis?.port ?? 0))
      return { server, redisPid: redis?.pid }
    },
  }
}

const customers = {
  plan: 'enterprise',
  limits: ampleLimits,
  clients: ampleClients.map(({ id, sha256 }) => ({ id, sha256 })),
}

/** A bare node:http server with the bytes that another scenario was seen to send. */
export function bareRefusal({ name, load }: Scenario): Scenario {
  const bare = name.replace('refusal', 'bare')
  return {
    name: bare,
    label: 'bare node:http, the bytes of the row above',
    load,
    job: 'none',
    repeats: name,
    start: async (world) => {
      const file = join(world.processes.directory, `${bare}.json`)
      writeFileSync(file, JSON.stringify(world.answerOf(name)))
      const server = await launchOwn(world, {
        name: bare,
        listener: 'fixed-answer',
        command: [script('fixed-answer.ts'), file],
      })
      return { server, redisPid: undefined }
    },
  }
}

async function launchOwn(
  { processes }: World,
  order: Omit<LaunchOrder, 'own'>,
): Promise<Subject['server']> {
  return processes.launch({ ...order, own: true })
}
