/** Redis with a replica and sentinels: which server is the master changes. */
import { eventually } from '../process/gateways.ts'
import { startSentinelGroup } from '../support/redis-sentinel.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { askRedis } from '../support/redis-shared.ts'

export interface ChaosStore {
  readonly servers: string
  readonly master: RedisServer
  /** Resolves when a master that was away is the master again. */
  isBack(): Promise<void>
  /** Kills the master; resolves when the replica is master, and the old master its replica. */
  failOver(): Promise<void>
}

/** Without a replica, where no fault is a failover. */
export async function oneRedis(): Promise<ChaosStore> {
  const master = await startRedisServer('--appendonly', 'yes', '--appendfsync', 'no')
  const failOver = () => Promise.reject(new Error('it has no replica'))
  return { servers: master.url, master, isBack: async () => undefined, failOver }
}

/** A master that is away for less is not failed over. */
const DOWN_AFTER_MS = 3_000

export async function startStore(): Promise<ChaosStore> {
  const group = await startSentinelGroup({
    downAfterMs: DOWN_AFTER_MS,
    // What is killed comes back with all that it has acknowledged: with everysec a write may wait for a flush that is slow.
    redis: ['--appendonly', 'yes', '--appendfsync', 'no'],
  })
  let { master, replica } = group
  return {
    servers: `{ sentinels: [${group.addresses.join(', ')}], name: ${group.name} }`,
    get master() {
      return master
    },
    isBack: () => group.untilMaster(master),
    failOver: async () => {
      await master.kill()
      await group.untilMaster(replica)
      ;[master, replica] = [replica, master]
      await replica.restart()
      // Sentinels do the same, after ten seconds.
      await askRedis(replica.port, `REPLICAOF 127.0.0.1 ${master.port}`)
      const isInStep = async (): Promise<boolean> =>
        (await askRedis(replica.port, 'INFO replication')).includes('master_link_status:up')
      await eventually('the old master follows the new one', isInStep, 30_000)
    },
  }
}
