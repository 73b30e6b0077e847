/** The masters of a Redis Cluster, each behind its own breaker: one that is away is no trouble of the others' clients. */
import type { Cluster, Redis } from 'ioredis'
import { slotOf } from './connections.ts'
import { createProbe, type LinkOptions, type RedisLink } from './link.ts'
import { StoreUnavailable } from '../rules/store-unavailable.ts'
import { createStoreBreaker, type StoreBreaker } from './breaker.ts'

interface Shard {
  readonly breaker: StoreBreaker
  /** unknown: no probe has ended yet. */
  state: 'unknown' | 'up' | 'down'
}

/** A refresh opens a connection, so many failures ask for one. */
const REFRESH_EVERY_MS = 100

/** Connects at once. */
export function createClusterLink(cluster: Cluster, options: LinkOptions): RedisLink {
  const { prefix, onWhole, onRecovered, onFault } = options
  /** By HOST:PORT of the master, as the cluster names it. */
  const shards = new Map<string, Shard>()
  let wasWhole: boolean | undefined
  let isClosed = false
  let mayRefreshAtMs = 0

  const ownerOf = (slot: number): string | undefined => cluster.slots[slot]?.[0]
  const states = (): Shard['state'][] => [...shards.values()].map(({ state }) => state)

  const tellWhole = (): void => {
    const known = states()
    const isWhole = known.length > 0 && known.every((state) => state === 'up')
    const isBroken = known.length === 0 || known.includes('down')
    if (isClosed || isWhole === wasWhole || !(isWhole || isBroken)) return
    wasWhole = isWhole
    onWhole(isWhole)
  }
  const refreshSlots = (): void => {
    const nowMs = performance.now()
    if (isClosed || cluster.status !== 'ready' || nowMs < mayRefreshAtMs) return
    mayRefreshAtMs = nowMs + REFRESH_EVERY_MS
    cluster.refreshSlotsCache()
  }
  const reconnect = (node: string): void => {
    for (const redis of cluster.nodes('master')) if (nameOf(redis) === node) redis.disconnect()
  }

  const createShard = (node: string): Shard => {
    const probe = createProbe(cluster, options, () => reconnect(node))
    const findKey = createKeyFinder(`${prefix}:probe`, (slot) => ownerOf(slot) === node)
    const ownsAny = (): boolean => cluster.slots.some(([owner]) => owner === node)
    const breaker = createStoreBreaker({
      probe: async () => {
        const key = ownsAny() ? findKey() : undefined
        if (cluster.status !== 'ready' || key === undefined) throw new StoreUnavailable('error')
        // Its slots may have gone to another master meanwhile.
        await probe(key).catch((fault: unknown) => {
          refreshSlots()
          throw fault
        })
      },
      onChange: (available) => {
        const before = shard.state
        shard.state = available ? 'up' : 'down'
        tellWhole()
        const isSettled = !states().includes('unknown')
        // At the start once for all of them, then for each.
        if (before === 'unknown' ? isSettled && states().includes('up') : available) onRecovered()
      },
    })
    const shard: Shard = { breaker, state: 'unknown' }
    shards.set(node, shard)
    // The first probes come with `ready`.
    if (cluster.status === 'ready') breaker.probe()
    return shard
  }

  cluster.on('refresh', () => {
    const owners = new Set(cluster.slots.map(([owner]) => owner))
    for (const [node, { breaker }] of shards) {
      if (owners.has(node)) continue
      breaker.close()
      shards.delete(node)
    }
    for (const owner of owners) if (owner !== undefined && !shards.has(owner)) createShard(owner)
    tellWhole()
  })
  cluster.on('+node', (redis: Redis) =>
    redis.on('ready', () => shards.get(nameOf(redis))?.breaker.probe()),
  )
  cluster.on('-node', (redis: Redis) => shards.get(nameOf(redis))?.breaker.lost())
  cluster.on('ready', () => {
    for (const { breaker } of shards.values()) breaker.probe()
  })
  cluster.on('close', () => {
    for (const { breaker } of shards.values()) breaker.lost()
    tellWhole()
  })
  // Without a listener ioredis prints every failed attempt.
  cluster.on('error', (fault: Error & { lastNodeError?: unknown }) =>
    onFault(fault.lastNodeError ?? fault),
  )
  cluster.on('node error', onFault)
  cluster.connect().catch(() => undefined)

  return {
    client: cluster,
    breakerOf: (key) => {
      const owner = ownerOf(slotOf(key))
      if (owner !== undefined) return (shards.get(owner) ?? createShard(owner)).breaker
      // A slot that nobody served when last asked.
      refreshSlots()
      return undefined
    },
    get available() {
      for (const { breaker } of shards.values()) if (breaker.available) return true
      return false
    },
    close: () => {
      isClosed = true
      for (const { breaker } of shards.values()) breaker.close()
      shards.clear()
      cluster.disconnect()
    },
  }
}

const nameOf = ({ options: { host, port } }: Redis): string => `${host}:${port}`

/** Decimal tags up to here meet every slot there is. */
const TAGS = 300_000

/** Finds a key in a slot that fits, and keeps it for as long as it does. */
function createKeyFinder(
  prefix: string,
  fits: (slot: number) => boolean,
): () => string | undefined {
  let tag = 0
  return () => {
    for (let tried = 0; tried < TAGS; tried++) {
      const key = `${prefix}:{${tag}}`
      if (fits(slotOf(key))) return key
      tag = (tag + 1) % TAGS
    }
    return undefined
  }
}
