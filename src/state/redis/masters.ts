/**
 * The servers that commands go to, each behind a breaker of its own: one server, the master that sentinels name, or the masters
 * of a cluster, so that one that is away affects only its own clients.
 */
import type { Cluster, Redis } from 'ioredis'
import { areSentinelsAway, serverFault, timedOut } from './faults.ts'
import { bounded } from '../timers.ts'
import { StoreUnavailable } from '../contract.ts'
import { StoreBreaker } from './breaker.ts'
import { slotOf } from './connections.ts'
import type { StoreState } from './state.ts'

export interface MastersOptions {
  /** Namespace of the keys that probes write. */
  readonly prefix: string
  /** Bound of a probe. */
  readonly timeoutMs: number
  /** Receives faults outside of calls, and which servers are usable. */
  readonly state: StoreState
}

const END_RETRY_MS = 500
/** Decimal tags up to this number cover all slots. */
const TAGS = 300_000
/** Calls for slots without an owner ask for the owners so often. */
const REFRESH_EVERY_MS = 100

/** Tests what the calls need: scripts that read and write, which a replica, a full server or a missing permission would refuse. */
const PROBE = `
local now = redis.call('TIME')[1]
redis.call('EXISTS', KEYS[1])
redis.call('HMGET', KEYS[1], 'at')
redis.call('HSET', KEYS[1], 'at', now)
redis.call('PEXPIREAT', KEYS[1], (now + 60) * 1000)
`

/** Connects at once. */
export class Masters {
  readonly #client: Redis | Cluster
  readonly #options: MastersOptions
  /** Keyed by HOST:PORT of the master, as the cluster names it; a server that is no cluster's has one under ''. */
  readonly #breakers = new Map<string, StoreBreaker>()
  /** The state reported last. */
  #wasWhole: boolean | undefined
  #isClosed = false
  /** When calls may ask for the owners of slots again, by performance.now(). */
  #refreshAtMs = 0

  constructor(client: Redis | Cluster, options: MastersOptions) {
    this.#client = client
    this.#options = options
    if ('slots' in client) this.#watchCluster(client)
    else this.#watchServer(client)
    this.#connect()
  }

  /** Returns the breaker of the server that holds the key; undefined: no master served its slot at the latest refresh. */
  breakerOf(key: string): StoreBreaker | undefined {
    const owner = this.#ownerOf(key)
    if (owner !== undefined) return this.#breakers.get(owner) ?? this.#createBreaker(owner)
    // No probe asks for the owner of a slot that has none.
    const nowMs = performance.now()
    if (nowMs >= this.#refreshAtMs) {
      this.#refreshAtMs = nowMs + REFRESH_EVERY_MS
      this.#refreshSlots()
    }
    return undefined
  }

  /** Some server can be called. */
  get available(): boolean {
    return this.#has('up')
  }

  close(): void {
    this.#isClosed = true
    this.#breakers.forEach((breaker) => breaker.close())
    this.#client.disconnect()
  }

  #connect(): void {
    this.#client.connect().catch(() => undefined)
  }

  #watchServer(client: Redis): void {
    const { state } = this.#options
    const breaker = this.#createBreaker('')
    // The library reports a master that no sentinel knows as if no sentinel could be reached.
    let isUnknown = false
    client.on('sentinelError', ({ message }: Error) => {
      isUnknown ||= message.endsWith('invalid reply: null')
    })
    // Without a listener ioredis prints every failed attempt.
    client.on('error', (fault) => {
      state.note(isUnknown && areSentinelsAway(fault) ? serverFault('NO_MASTER') : fault)
      isUnknown = false
    })
    client.on('ready', () => breaker.probe())
    client.on('close', () => breaker.lost())
    // The library gives up when a connection is abandoned before it has begun.
    client.on('end', () => {
      if (!this.#isClosed) setTimeout(() => this.#connect(), END_RETRY_MS).unref()
    })
  }

  #watchCluster(cluster: Cluster): void {
    const { state } = this.#options
    const breakerOf = (redis: Redis): StoreBreaker | undefined => this.#breakers.get(nameOf(redis))
    cluster.on('refresh', () => this.#takeSlots(cluster))
    cluster.on('+node', (redis: Redis) => redis.on('ready', () => breakerOf(redis)?.probe()))
    cluster.on('-node', (redis: Redis) => breakerOf(redis)?.lost())
    cluster.on('ready', () => this.#breakers.forEach((breaker) => breaker.probe()))
    cluster.on('close', () => {
      this.#breakers.forEach((breaker) => breaker.lost())
      this.#reportWhole()
    })
    cluster.on('error', (fault: Error & { lastNodeError?: unknown }) =>
      state.note(fault.lastNodeError ?? fault),
    )
    cluster.on('node error', (fault: unknown, node: string) => state.note(fault, node))
  }

  #ownerOf(key: string): string | undefined {
    return 'slots' in this.#client ? this.#client.slots[slotOf(key)]?.[0] : ''
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

  /** Keeps a breaker for each master of the present slots, and for no others. */
  #takeSlots({ slots }: Cluster): void {
    const owners = new Set(slots.flatMap(([owner]) => owner ?? []))
    for (const [node, breaker] of this.#breakers) {
      if (owners.has(node)) continue
      breaker.close()
      this.#breakers.delete(node)
    }
    for (const owner of owners) if (!this.#breakers.has(owner)) this.#createBreaker(owner)
    this.#reportWhole()
  }

  #createBreaker(node: string): StoreBreaker {
    const probe = this.#createProbe(node)
    const breaker = new StoreBreaker(probe, (available, isFirst) => {
      this.#reportWhole()
      // Recovery is reported once at the start for all masters, later for each.
      if (isFirst ? !this.#has(undefined) && this.available : available)
        this.#options.state.recover()
    })
    this.#breakers.set(node, breaker)
    // The first probes come with `ready`.
    if (this.#client.status === 'ready') breaker.probe()
    return breaker
  }

  /** Makes a probe that rejects when this server does not work in time. */
  #createProbe(node: string): () => Promise<void> {
    const { timeoutMs, state } = this.#options
    const client = this.#client
    return async () => {
      const key = this.#probeKey(node)
      try {
        if (client.status !== 'ready' || key === undefined) throw new StoreUnavailable('error')
        await bounded(this.#ask(key), timeoutMs, timedOut)
      } catch (fault) {
        // The master's slots may have moved to another one meanwhile.
        this.#refreshSlots()
        if (!(fault instanceof StoreUnavailable)) state.note(fault, node || undefined)
        throw fault
      }
    }
  }

  async #ask(key: string): Promise<void> {
    const client = this.#client
    // The library selects it on connecting, too, but goes on with database 0 where that is refused.
    if (!('slots' in client) && client.options.db) await client.select(client.options.db)
    await client.eval(PROBE, 1, key)
  }

  #refreshSlots(): void {
    const client = this.#client
    if ('slots' in client && client.status === 'ready') client.refreshSlotsCache()
  }

  /** Returns a key for probes in a slot of the node; undefined: the node has no slot. */
  #probeKey(node: string): string | undefined {
    const { prefix } = this.#options
    if (!('slots' in this.#client)) return `${prefix}:probe`
    if (!this.#client.slots.some(([owner]) => owner === node)) return undefined
    for (let tag = 0; tag < TAGS; tag++) {
      const key = `${prefix}:probe:{${tag}}`
      if (this.#ownerOf(key) === node) return key
    }
    return undefined
  }
}

/** Names a node as the library's slots do, including IPv6 addresses. */
const nameOf = ({ options: { host, port } }: Redis): string => `${host}:${port}`
