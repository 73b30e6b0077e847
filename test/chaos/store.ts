/** Redis with a replica and sentinels: which server is the master changes, and what clients have used is read from it. */
import { quotaKey } from '../../src/quota/authorities/redis.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '../process/gateways.ts'
import { countersInRedis, type CountersInRedis } from '../process/paced-callers.ts'
import { startSentinelGroup } from '../support/redis-sentinel.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { askRedis } from '../support/redis-shared.ts'

export interface ChaosStore {
  /** As it stands in a configuration. */
  readonly servers: string
  readonly master: RedisServer
  /** Away for so long, and back with its data, before anyone thinks of a failover. */
  freeze(forMs: number): Promise<void>
  restart(forMs: number): Promise<void>
  /** Kills the master; resolves when the replica is master, and the old master its replica. */
  failOver(): Promise<void>
  counted(client: string): Promise<CountersInRedis>
  close(): Promise<void>
}

/** A master that is away for less is not failed over. */
const DOWN_AFTER_MS = 3_000

export async function startStore(): Promise<ChaosStore> {
  const group = await startSentinelGroup({
    downAfterMs: DOWN_AFTER_MS,
    // What is killed comes back with all that it has acknowledged.
    redis: ['--appendonly', 'yes', '--appendfsync', 'everysec'],
  })
  let { master, replica } = group
  return {
    servers: `{ sentinels: [${group.addresses.join(', ')}], name: ${group.name} }`,
    get master() {
      return master
    },
    freeze: async (forMs) => {
      master.freeze()
      await sleep(forMs)
      master.thaw()
      await group.untilMaster(master)
    },
    restart: async (forMs) => {
      await master.kill()
      await sleep(forMs)
      await master.restart()
      await group.untilMaster(master)
    },
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
    counted: (client) => countersInRedis(master.port, quotaKey('tollgate', client)),
    close: () => group.stop(),
  }
}
