/** A Redis Cluster of real redis-server processes on free ports. */
import { askRedis, flags, withFreePorts } from './redis-shared.ts'
import { freePort, startRedisServer, type RedisServer } from './redis-server.ts'
import { until } from './until.ts'

export type RedisCluster = Awaited<ReturnType<typeof startRedisCluster>>

const MASTERS = 3
const SLOTS = 16_384

/** replicated: places of the masters that have a replica. */
export async function startRedisCluster(replicated: readonly number[] = [0, 1, 2]) {
  const count = MASTERS + replicated.length
  const servers = await Promise.all(Array.from({ length: count }, () => withFreePorts(startNode)))
  const masters = servers.slice(0, MASTERS)
  const replicas = servers.slice(MASTERS)
  const firstSlot = (at: number): number => Math.ceil((SLOTS * at) / MASTERS)
  for (const [at, master] of masters.entries()) {
    const slots = [firstSlot(at), firstSlot(at + 1) - 1].map(String)
    master.cli('CLUSTER', 'ADDSLOTSRANGE', ...slots)
  }
  for (const [at, server] of servers.entries()) {
    server.cli('CLUSTER', 'SET-CONFIG-EPOCH', String(at + 1))
    if (at === 0) continue
    const [first] = servers
    const busPort = first?.cli('CONFIG', 'GET', 'cluster-port').split('\n')[1] ?? ''
    server.cli('CLUSTER', 'MEET', '127.0.0.1', String(first?.port), busPort)
  }
  await untilAll(servers, 'CLUSTER NODES', (nodes) => {
    const known = nodes.split('\n').filter((line) => /^[\da-f]{40} /.test(line))
    return known.length === count && !nodes.includes('handshake')
  })
  for (const [at, replica] of replicas.entries()) {
    const master = masters[replicated[at] ?? 0]
    replica.cli('CLUSTER', 'REPLICATE', master?.cli('CLUSTER', 'MYID') ?? '')
  }
  await untilAll(servers, 'CLUSTER INFO', (info) => info.includes('cluster_state:ok'))
  await untilAll(replicas, 'INFO replication', (info) => info.includes('master_link_status:up'))
  // Replicas announce themselves by gossip; a failover before that would not happen.
  await untilAll(
    servers,
    'CLUSTER NODES',
    (nodes) => (nodes.match(/slave/g) ?? []).length === replicas.length,
  )
  /** Runs redis-cli -c with the arguments on any node that answers. */
  const cli = (...args: string[]): string => {
    for (const server of servers) {
      try {
        return server.cli('-c', ...args)
      } catch {
        // That one is down.
      }
    }
    throw new Error('no node of the cluster answers')
  }
  return {
    /** Masters at the start, each of a third of the slots. */
    masters: masters as readonly RedisServer[],
    replicas: replicas as readonly RedisServer[],
    /** HOST:PORT of the masters. */
    nodes: masters.map(({ port }) => `127.0.0.1:${port}`),
    /** The master that holds the key at the start. */
    ownerOf: (key: string): RedisServer => {
      const slot = Number(cli('CLUSTER', 'KEYSLOT', key))
      const owner = masters.findLast((_, at) => firstSlot(at) <= slot)
      if (owner === undefined) throw new Error(`no master holds slot ${slot}`)
      return owner
    },
    cli,
    stop: () => Promise.all(servers.map((server) => server.stop())),
  }
}

async function startNode(): Promise<RedisServer> {
  const options = flags({
    'cluster-enabled': 'yes',
    // The usual one, port + 10000, may be beyond the last port.
    'cluster-port': await freePort(),
    'cluster-node-timeout': 1000,
    'cluster-require-full-coverage': 'no',
    'repl-diskless-sync-delay': 0,
    // A replica that was out of step for a moment stands for election all the same.
    'cluster-replica-validity-factor': 0,
  })
  return startRedisServer(...options)
}

/** Until the reply of each is as wanted. */
async function untilAll(
  servers: readonly RedisServer[],
  command: string,
  isRight: (reply: string) => boolean,
): Promise<void> {
  await until(async () => {
    const replies = await Promise.all(servers.map(({ port }) => askRedis(port, command)))
    return replies.every(isRight)
  }, `the right answers to ${command}`)
}
