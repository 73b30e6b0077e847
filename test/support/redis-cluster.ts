/** A Redis Cluster of real redis-server processes on free ports. */
import { setTimeout as sleep } from 'node:timers/promises'
import { flags, withFreePorts } from './redis-shared.ts'
import { freePort, startRedisServer, type RedisServer } from './redis-server.ts'

export interface RedisCluster {
  /** Masters at the start, each of a third of the slots. */
  readonly masters: readonly RedisServer[]
  readonly replicas: readonly RedisServer[]
  /** HOST:PORT of the masters. */
  readonly nodes: readonly string[]
  /** The master that holds the key at the start. */
  ownerOf(key: string): RedisServer
  /** Runs redis-cli -c with the arguments on any node that answers. */
  cli(...args: string[]): string
  stop(): Promise<void>
}

const MASTERS = 3
const SLOTS = 16_384

/** replicas: one for each master, else none. fullCoverage: cluster-require-full-coverage. */
export async function startRedisCluster({
  replicas: withReplicas = true,
  fullCoverage = false,
}: { replicas?: boolean; fullCoverage?: boolean } = {}): Promise<RedisCluster> {
  const count = withReplicas ? 2 * MASTERS : MASTERS
  const started = await Promise.allSettled(
    Array.from({ length: count }, () => withFreePorts(() => startNode(fullCoverage))),
  )
  const servers = started.flatMap((node) => (node.status === 'fulfilled' ? [node.value] : []))
  if (servers.length < count) {
    await Promise.all(servers.map((server) => server.stop()))
    throw new Error(`only ${servers.length} of ${count} nodes of the cluster could be started`)
  }
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
  const knows = (server: RedisServer): boolean =>
    server
      .cli('CLUSTER', 'NODES')
      .split('\n')
      .filter((line) => !line.includes('handshake')).length === count
  await untilTrue('every node knows every other', () => servers.every(knows))
  for (const [at, replica] of replicas.entries())
    replica.cli('CLUSTER', 'REPLICATE', masters[at]?.cli('CLUSTER', 'MYID') ?? '')
  await untilTrue('the cluster is whole', () =>
    servers.every((server) => server.cli('CLUSTER', 'INFO').includes('cluster_state:ok')),
  )
  await untilTrue('the replicas are in step', () =>
    replicas.every((server) => server.cli('INFO', 'replication').includes('master_link_status:up')),
  )
  // Replicas announce themselves by gossip; a failover before that would not happen.
  await untilTrue('every node knows every replica', () =>
    servers.every(
      (server) => (server.cli('CLUSTER', 'NODES').match(/slave/g) ?? []).length === replicas.length,
    ),
  )
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
    masters,
    replicas,
    nodes: masters.map(({ port }) => `127.0.0.1:${port}`),
    ownerOf: (key) => {
      const slot = Number(cli('CLUSTER', 'KEYSLOT', key))
      const owner = masters.findLast((_, at) => firstSlot(at) <= slot)
      if (owner === undefined) throw new Error(`no master holds slot ${slot}`)
      return owner
    },
    cli,
    stop: async () => {
      for (const server of servers) server.thaw()
      await Promise.all(servers.map((server) => server.stop()))
    },
  }
}

async function startNode(fullCoverage: boolean): Promise<RedisServer> {
  const options = flags({
    'cluster-enabled': 'yes',
    // The usual one, port + 10000, may be beyond the last port.
    'cluster-port': await freePort(),
    'cluster-node-timeout': 1000,
    'cluster-require-full-coverage': fullCoverage ? 'yes' : 'no',
    'repl-diskless-sync-delay': 0,
    // A replica that was out of step for a moment stands for election all the same.
    'cluster-replica-validity-factor': 0,
  })
  return startRedisServer(...options)
}

async function untilTrue(what: string, condition: () => boolean): Promise<void> {
  for (let attempt = 0; attempt < 300; attempt++) {
    if (condition()) return
    await sleep(50)
  }
  throw new Error(`waited 15 s in vain until ${what}`)
}
