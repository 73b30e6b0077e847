/** Finds settings of servers with which the gateway works, but may lose counts. */
import type { Cluster, Redis } from 'ioredis'
import { nameOf } from './servers.ts'

/** Describes the risks of all masters; undefined: there are none, as far as the servers report. Rejects where they may not be asked. */
export async function findRisks(client: Redis | Cluster): Promise<string | undefined> {
  const nodes = 'slots' in client ? client.nodes('master') : [client]
  const risks = (await Promise.all(nodes.map(risksOf))).flat()
  return risks.length === 0 ? undefined : risks.join('; ')
}

async function risksOf(redis: Redis): Promise<string[]> {
  const [info, saves] = await Promise.all([
    redis.info(),
    // CONFIG is often forbidden, and absent from rented servers.
    redis.config('GET', 'save').catch(() => undefined),
  ])
  const field = (name: string): string | undefined =>
    new RegExp(`^${name}:(\\S*)`, 'm').exec(info)?.[1]
  const found: string[] = []
  const policy = field('maxmemory_policy') ?? 'noeviction'
  if (policy !== 'noeviction')
    found.push(`maxmemory-policy is ${policy}: counts may be evicted; set noeviction`)
  const hasSnapshots = Array.isArray(saves) ? saves[1] !== '' : field('rdb_saves') !== '0'
  if (field('aof_enabled') === '0' && !hasSnapshots)
    found.push('nothing is kept over a restart: counts begin anew; set appendonly yes')
  return found.map((risk) => `${nameOf(redis.options)}: ${risk}`)
}
