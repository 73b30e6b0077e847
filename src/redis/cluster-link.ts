/** The masters of a Redis Cluster, each behind its own breaker: one that is away is no trouble of the others' clients. */
import type { Cluster, Redis } from 'ioredis'
import { slotOf } from './connections.ts'
import { createProbe, type LinkOptions, type RedisLink } from './link.ts'
import { StoreUnavailable } from '../rules/store-unavailable.ts'
import { StoreBreaker } from './breaker.ts'

interface Shard {
  readonly breaker: StoreBreaker
  /** unknown: no probe has ended yet. */
  state: 'unknown' | 'up' | 'down'
}

/** A refresh opens a connection, so many failures ask for one. */
const REFRESH_EVERY_MS = 100

/** Connects at once. */
export class ClusterLink implements RedisLink {
  readonly client: Cluster
  readonly #options: LinkOptions
  /** By HOST:PORT of the master, as the cluster names it; written by #takeSlots and #createShard. */
  readonly #shards = new Map<string, Shard>()
  /** As told last. */
  #wasWhole: boolean | undefined
  #isClosed = false
  #mayRefreshAtMs = 0

  constructor(cluster: Cluster, options: LinkOptions) {
    this.client = cluster
    this.#options = options
    const probe = (redis: Redis): void => this.#shards.get(nameOf(redis))?.breaker.probe()
    cluster.on('refresh', () => this.#takeSlots())
    cluster.on('+node', (redis: Redis) => redis.on('ready', () => probe(redis)))
    cluster.on('-node', (redis: Redis) => this.#shards.get(nameOf(redis))?.breaker.lost())
    cluster.on('ready', () => {
      for (const { breaker } of this.#shards.values()) breaker.probe()
    })
    cluster.on('close', () => {
      for (const { breaker } of this.#shards.values()) breaker.lost()
      this.#tellWhole()
    })
    // Without a listener ioredis prints every failed attempt.
    cluster.on('error', (fault: Error & { lastNodeError?: unknown }) =>
      options.onFault(fault.lastNodeError ?? fault),
    )
    cluster.on('node error', (fault: unknown, node: string) => options.onFault(fault, node))
    cluster.connect().catch(() => undefined)
  }

  breakerOf(key: string): StoreBreaker | undefined {
    const owner = this.#ownerOf(slotOf(key))
    if (owner !== undefined) return (this.#shards.get(owner) ?? this.#createShard(owner)).breaker
    // A slot that nobody served when last asked.
    this.#refreshSlots()
    return undefined
  }

  get available(): boolean {
    for (const { breaker } of this.#shards.values()) if (breaker.available) return true
    return false
  }

  close(): void {
    this.#isClosed = true
    for (const { breaker } of this.#shards.values()) breaker.close()
    this.#shards.clear()
    this.client.disconnect()
  }

  #ownerOf(slot: number): string | undefined {
    return this.client.slots[slot]?.[0]
  }

  #states(): Shard['state'][] {
    return [...this.#shards.values()].map(({ state }) => state)
  }

  #tellWhole(): void {
    const known = this.#states()
    const isWhole = known.length > 0 && known.every((state) => state === 'up')
    const isBroken = known.length === 0 || known.includes('down')
    if (this.#isClosed || isWhole === this.#wasWhole || !(isWhole || isBroken)) return
    this.#wasWhole = isWhole
    this.#options.onWhole(isWhole)
  }

  #refreshSlots(): void {
    const nowMs = performance.now()
    if (this.#isClosed || this.client.status !== 'ready' || nowMs < this.#mayRefreshAtMs) return
    this.#mayRefreshAtMs = nowMs + REFRESH_EVERY_MS
    this.client.refreshSlotsCache()
  }

  /** A shard for each master of the slots as they are now, and none for others. */
  #takeSlots(): void {
    const owners = new Set(this.client.slots.map(([owner]) => owner))
    for (const [node, { breaker }] of this.#shards) {
      if (owners.has(node)) continue
      breaker.close()
      this.#shards.delete(node)
    }
    for (const owner of owners)
      if (owner !== undefined && !this.#shards.has(owner)) this.#createShard(owner)
    this.#tellWhole()
  }

  #createShard(node: string): Shard {
    const onChange = (available: boolean): void => this.#changed(shard, available)
    const breaker = new StoreBreaker({ probe: this.#createShardProbe(node), onChange })
    const shard: Shard = { breaker, state: 'unknown' }
    this.#shards.set(node, shard)
    // The first probes come with `ready`.
    if (this.client.status === 'ready') breaker.probe()
    return shard
  }

  #changed(shard: Shard, available: boolean): void {
    const before = shard.state
    shard.state = available ? 'up' : 'down'
    this.#tellWhole()
    const states = this.#states()
    const isSettled = !states.includes('unknown')
    // At the start once for all of them, then for each.
    if (before === 'unknown' ? isSettled && states.includes('up') : available)
      this.#options.onRecovered()
  }

  #createShardProbe(node: string): () => Promise<void> {
    const cluster = this.client
    const reconnect = (): void => {
      for (const redis of cluster.nodes('master')) if (nameOf(redis) === node) redis.disconnect()
    }
    const probe = createProbe(cluster, this.#options, { server: node, onSilence: reconnect })
    const findKey = createKeyFinder(
      `${this.#options.prefix}:probe`,
      (slot) => this.#ownerOf(slot) === node,
    )
    const ownsAny = (): boolean => cluster.slots.some(([owner]) => owner === node)
    return async () => {
      const key = ownsAny() ? findKey() : undefined
      if (cluster.status !== 'ready' || key === undefined) throw new StoreUnavailable('error')
      // Its slots may have gone to another master meanwhile.
      await probe(key).catch((fault: unknown) => {
        this.#refreshSlots()
        throw fault
      })
    }
  }
}

/** As the slots of the library name it, an IPv6 address too. */
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
