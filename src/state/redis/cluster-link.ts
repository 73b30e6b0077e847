/** The masters of a Redis Cluster, each behind its own breaker, so that one that is away affects only its own clients. */
import type { Cluster, Redis } from 'ioredis'
import { slotOf } from './connections.ts'
import { createProbe, type LinkOptions, type RedisLink } from './link.ts'
import { StoreBreaker } from './breaker.ts'

/** A refresh opens a connection, so that several failures share one. */
const REFRESH_EVERY_MS = 100
/** Decimal tags up to this number cover all slots. */
const TAGS = 300_000

/** Connects at once. */
export class ClusterLink implements RedisLink {
  readonly #cluster: Cluster
  readonly #options: LinkOptions
  /** Keyed by HOST:PORT of the master, as the cluster names it. Written by #takeSlots and #createBreaker. */
  readonly #breakers = new Map<string, StoreBreaker>()
  /** The state reported last. */
  #wasWhole: boolean | undefined
  #isClosed = false
  #mayRefreshAtMs = 0

  constructor(cluster: Cluster, options: LinkOptions) {
    this.#cluster = cluster
    this.#options = options
    const breakerOf = (redis: Redis): StoreBreaker | undefined => this.#breakers.get(nameOf(redis))
    cluster.on('refresh', () => this.#takeSlots())
    cluster.on('+node', (redis: Redis) => redis.on('ready', () => breakerOf(redis)?.probe()))
    cluster.on('-node', (redis: Redis) => breakerOf(redis)?.lost())
    cluster.on('ready', () => this.#breakers.forEach((breaker) => breaker.probe()))
    cluster.on('close', () => {
      this.#breakers.forEach((breaker) => breaker.lost())
      this.#reportWhole()
    })
    // Without a listener ioredis prints every failed attempt.
    cluster.on('error', (fault: Error & { lastNodeError?: unknown }) =>
      options.state.note(fault.lastNodeError ?? fault),
    )
    cluster.on('node error', (fault: unknown, node: string) => options.state.note(fault, node))
    cluster.connect().catch(() => undefined)
  }

  breakerOf(key: string): StoreBreaker | undefined {
    const owner = this.#ownerOf(slotOf(key))
    if (owner !== undefined) return this.#breakers.get(owner) ?? this.#createBreaker(owner)
    // No master served this slot at the latest refresh.
    this.#refreshSlots()
    return undefined
  }

  get available(): boolean {
    return this.#has('up')
  }

  close(): void {
    this.#isClosed = true
    this.#breakers.forEach((breaker) => breaker.close())
    this.#breakers.clear()
    this.#cluster.disconnect()
  }

  #ownerOf(slot: number): string | undefined {
    return this.#cluster.slots[slot]?.[0]
  }

  #has(state: StoreBreaker['state']): boolean {
    return [...this.#breakers.values()].some((breaker) => breaker.state === state)
  }

  #reportWhole(): void {
    const isBroken = this.#breakers.size === 0 || this.#has('down')
    const isKnown = isBroken || !this.#has(undefined)
    if (this.#isClosed || !isKnown || this.#wasWhole === !isBroken) return
    this.#wasWhole = !isBroken
    this.#options.state.become(!isBroken)
  }

  #refreshSlots(): void {
    const nowMs = performance.now()
    if (this.#isClosed || this.#cluster.status !== 'ready' || nowMs < this.#mayRefreshAtMs) return
    this.#mayRefreshAtMs = nowMs + REFRESH_EVERY_MS
    this.#cluster.refreshSlotsCache()
  }

  /** Keeps a breaker for each master of the present slots, and for no others. */
  #takeSlots(): void {
    const owners = new Set(this.#cluster.slots.flatMap(([owner]) => owner ?? []))
    for (const [node, breaker] of this.#breakers) {
      if (owners.has(node)) continue
      breaker.close()
      this.#breakers.delete(node)
    }
    for (const owner of owners) if (!this.#breakers.has(owner)) this.#createBreaker(owner)
    this.#reportWhole()
  }

  #createBreaker(node: string): StoreBreaker {
    const reconnect = (): void => {
      for (const redis of this.#cluster.nodes('master'))
        if (nameOf(redis) === node) redis.disconnect()
    }
    const probe = createProbe(this.#cluster, this.#options, reconnect, node)
    const breaker = new StoreBreaker(
      () =>
        probe(this.#keyAt(node)).catch((fault: unknown) => {
          // The master's slots may have moved to another one meanwhile.
          this.#refreshSlots()
          throw fault
        }),
      (available, isFirst) => {
        this.#reportWhole()
        // Recovery is reported once at the start for all masters, later for each.
        if (isFirst ? !this.#has(undefined) && this.#has('up') : available)
          this.#options.state.recover()
      },
    )
    this.#breakers.set(node, breaker)
    // The first probes come with `ready`.
    if (this.#cluster.status === 'ready') breaker.probe()
    return breaker
  }

  /** Returns a key for probes in a slot of the node; undefined: the node has no slot. */
  #keyAt(node: string): string | undefined {
    if (!this.#cluster.slots.some(([owner]) => owner === node)) return undefined
    for (let tag = 0; tag < TAGS; tag++) {
      const key = `${this.#options.prefix}:probe:{${tag}}`
      if (this.#ownerOf(slotOf(key)) === node) return key
    }
    return undefined
  }
}

/** Names a node as the library's slots do, including IPv6 addresses. */
const nameOf = ({ options: { host, port } }: Redis): string => `${host}:${port}`
