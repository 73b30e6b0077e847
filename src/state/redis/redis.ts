/** The Redis that all processes share: one server, the master that sentinels name, or a cluster. */
import type { Cluster, Redis } from 'ioredis'
import { nameOf, nameServers } from '../../config/hosts.ts'
import { StoreUnavailable } from '../contract.ts'
import { bounded, endedWithin } from '../timers.ts'
import { StoreBreaker } from './breaker.ts'
import { createConnections, defineScript, slotOf } from './connections.ts'
import type { RedisOptions, RedisScript } from './connections.ts'
import {
  areSentinelsAway,
  describeFault,
  isKeyFault,
  isTimeout,
  isUnresolved,
  serverFault,
  timedOut,
} from './faults.ts'
import { findRisks, inspectServer } from './servers.ts'
import { openSubscribers, type Subscription } from './subscriber.ts'

/** A start waits this long for the store, so that its first requests are not decided without it. */
const READY_AT_MOST_MS = 1_000
const END_RETRY_MS = 500
const UNKNOWN_CAUSE = 'connection lost'
/** Decimal tags up to this number cover all slots. */
const TAGS = 300_000
/** A refusal repeats with each attempt to connect; one that does not for so long has become an outage. */
const REFUSAL_STANDS_MS = 5_000
/** The owners of slots are asked for no oftener. */
const REFRESH_EVERY_MS = 100

/** Tries all that the calls need: what a replica, a full server or a missing permission would refuse to them is refused here. */
const PROBE = `
local key, now = KEYS[1], redis.call('TIME')[1]
redis.call('EXISTS', key)
redis.call('HMGET', key, 'at')
redis.call('HSET', key, 'at', now)
redis.call('PEXPIREAT', key, (now + 60) * 1000)
redis.call('EXPIRE', key, 60)
redis.call('HGET', key, 'at')
redis.call('HGETALL', key)
redis.call('HDEL', key, 'at')
redis.call('DEL', key)
return {}
`

/**
 * Connects at once, and is available once a server has answered a probe. Each server has its own breaker, so that one that is away
 * affects only its own clients: their calls reject with StoreUnavailable, soon without being sent.
 */
export class RedisStore {
  readonly #client: Redis | Cluster
  readonly #options: RedisOptions
  readonly #probe: RedisScript
  /** Keyed by HOST:PORT of the master, as the cluster names it; a server that is no cluster's has one under ''. */
  readonly #breakers = new Map<string, StoreBreaker>()
  readonly #recovered: (() => void)[] = []
  /** Thrown for every request of an outage. It is made once, since a stack trace costs more than the decision. */
  readonly #away = new StoreUnavailable('error')
  /** The latest fault since all servers were usable, in a word. Written by #note and #report. */
  cause = UNKNOWN_CAUSE
  /** The latest refusal since then; text: server, fault and remedy. Written by #note and #report. */
  #refusal: { readonly word: string; readonly text: string; readonly atMs: number } | undefined
  /** What was reported last; undefined: nothing was. Written by #report alone. */
  #isWhole: boolean | undefined
  /** The refusal that was reported last, in a word. Written by #report alone. */
  #refusedAs: string | undefined
  #isClosed = false
  /** When the owners of slots may be asked for again, by performance.now(). */
  #refreshAtMs = 0
  readonly #subscribers: ReturnType<typeof openSubscribers>
  /** Settings of the servers that may lose counts. Written by #warn alone. */
  warning: string | undefined

  constructor(options: RedisOptions) {
    const connections = createConnections(options)
    const { client } = connections
    this.#client = client
    this.#options = options
    this.#probe = defineScript(client, PROBE)
    this.#subscribers = openSubscribers(connections, options.servers, (fault, server) =>
      this.#note(fault, server),
    )
    this.onRecovered(() => void findRisks(client).then((found) => this.#warn(found)))
    if ('slots' in client) this.#watchCluster(client)
    else this.#watchServer(client)
  }

  /** Prepares a script, which throws StoreUnavailable while the server of its keys is away, else rejects with it. */
  script(text: string): RedisScript {
    const run = defineScript(this.#client, text)
    return (keys, args) => this.#call(keys[0] ?? '', () => run(keys, args))
  }

  /** Returns an empty record for an absent key. */
  async hgetall(key: string): Promise<Record<string, string>> {
    return this.#call(key, () => this.#client.hgetall(key))
  }

  /** Subscribes on a connection of its own, across reconnects; takes effect as soon as the server is available. */
  subscribe(channel: string, subscription: Subscription): void {
    this.#subscribers[0].add(channel, subscription)
  }

  /** false: calls fail at once, until a probe has succeeded. In a cluster: no master can be called. */
  get available(): boolean {
    return this.#has('up')
  }

  get refusal(): string | undefined {
    return this.#isWhole === true ? undefined : this.#standingRefusal()?.text
  }

  /** Calls the listener each time a server becomes usable, at once if one is. */
  onRecovered(listener: () => void): void {
    this.#recovered.push(listener)
    if (this.available) listener()
  }

  /** Resolves when the store is available, or has had its time to be; rejects with an Error of the refusal, if there is one. */
  async ready(): Promise<void> {
    const usable = new Promise<void>((resolve) => this.onRecovered(resolve))
    await endedWithin(usable, READY_AT_MOST_MS)
    if (!this.available && this.refusal === undefined) await this.#inspect()
    if (this.refusal !== undefined) throw new Error(this.refusal)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const subscriber of this.#subscribers) subscriber?.close()
    this.#breakers.forEach((breaker) => breaker.close())
    this.#client.disconnect()
  }

  #call<Reply>(key: string, send: () => Promise<Reply>): Promise<Reply> {
    const breaker = this.#breakers.get(this.#ownerOf(key) ?? '')
    if (breaker?.available !== true) {
      // No probe asks for the owner of a slot that has none.
      if (breaker === undefined) this.#refreshSlots()
      throw this.#away
    }
    return breaker.call(send, this.#options.timeoutMs).catch((fault: unknown) => {
      if (!isKeyFault(fault)) this.#note(fault)
      throw new StoreUnavailable(isTimeout(fault) ? 'timeout' : 'error', fault)
    })
  }

  /** fault: undefined: it could not be determined. server: the one that has it, where known. */
  #note(fault: unknown, server = nameServers(this.#options.servers)): void {
    if (fault === undefined) return
    const { word, what } = describeFault(fault)
    this.cause = word
    if (what !== undefined) {
      const text = `store.redis: ${server}: ${word}: ${what}`
      this.#refusal = { word, text, atMs: performance.now() }
    }
    if (this.#isWhole === false) this.#report()
  }

  #standingRefusal() {
    const refusal = this.#refusal
    return refusal && performance.now() - refusal.atMs <= REFUSAL_STANDS_MS ? refusal : undefined
  }

  /** A warning may change, as another server may have taken over. */
  #warn(found: string | undefined): void {
    if (found === this.warning) return
    this.warning = found
    this.#options.onWarning?.(found)
  }

  /** Notes why the configured servers cannot be used. */
  async #inspect(): Promise<void> {
    const { servers, tls } = this.#options
    const inspected = servers.addresses.map(async (address) => {
      const fault = await inspectServer(address, tls)
      const name = nameOf(address)
      this.#note(fault, name)
      if (isUnresolved(fault)) this.#warn(`no such host: ${name}; correct it, or the resolver`)
    })
    await Promise.all(inspected)
  }

  #watchServer(client: Redis): void {
    const breaker = this.#createBreaker('')
    // The library reports a master that no sentinel knows as if no sentinel could be reached.
    let isUnknown = false
    client.on('sentinelError', ({ message }: Error) => {
      isUnknown ||= message.endsWith('invalid reply: null')
    })
    // Without a listener ioredis prints every failed attempt.
    client.on('error', (fault) => {
      this.#note(isUnknown && areSentinelsAway(fault) ? serverFault('NO_MASTER') : fault)
      isUnknown = false
    })
    client.on('ready', () => breaker.probe())
    client.on('close', () => breaker.lost())
    // The library gives up when a connection is abandoned before it has begun.
    client.on('end', () => {
      const again = (): void => void client.connect().catch(() => undefined)
      if (!this.#isClosed) setTimeout(again, END_RETRY_MS).unref()
    })
  }

  #watchCluster(cluster: Cluster): void {
    // As the library's slots name a node, IPv6 addresses too.
    const breakerOf = ({ options: { host, port } }: Redis): StoreBreaker | undefined =>
      this.#breakers.get(`${host}:${port}`)
    cluster.on('refresh', () => this.#takeSlots(cluster))
    cluster.on('+node', (redis: Redis) => redis.on('ready', () => breakerOf(redis)?.probe()))
    cluster.on('-node', (redis: Redis) => breakerOf(redis)?.lost())
    cluster.on('ready', () => this.#breakers.forEach((breaker) => breaker.probe()))
    cluster.on('close', () => {
      this.#breakers.forEach((breaker) => breaker.lost())
      this.#report()
    })
    cluster.on('error', (fault: Error & { lastNodeError?: unknown }) =>
      this.#note(fault.lastNodeError ?? fault),
    )
    cluster.on('node error', (fault: unknown, node: string) => this.#note(fault, node))
  }

  #ownerOf(key: string): string | undefined {
    return 'slots' in this.#client ? this.#client.slots[slotOf(key)]?.[0] : ''
  }

  #has(state: StoreBreaker['state']): boolean {
    return [...this.#breakers.values()].some((breaker) => breaker.state === state)
  }

  #report(): void {
    const isWhole = this.#breakers.size > 0 && !this.#has('down')
    if (this.#isClosed || (isWhole && this.#has(undefined))) return
    const refusedAs = isWhole ? undefined : this.#standingRefusal()?.word
    if (isWhole === this.#isWhole && refusedAs === this.#refusedAs) return
    this.#isWhole = isWhole
    this.#refusedAs = refusedAs
    this.#options.onState?.(isWhole, refusedAs ?? this.cause)
    if (!isWhole) return
    this.cause = UNKNOWN_CAUSE
    this.#refusal = undefined
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
    this.#report()
  }

  #createBreaker(node: string): StoreBreaker {
    const breaker = new StoreBreaker(
      () => this.#tryServer(node),
      (available, isFirst) => {
        this.#report()
        // Recovery is reported once at the start for all masters, later for each.
        const isRecovery = isFirst ? !this.#has(undefined) && this.available : available
        if (isRecovery) for (const listener of this.#recovered) listener()
      },
    )
    this.#breakers.set(node, breaker)
    // The first probes come with `ready`.
    if (this.#client.status === 'ready') breaker.probe()
    return breaker
  }

  /** Rejects when this server does not work in time. */
  async #tryServer(node: string): Promise<void> {
    const key = this.#probeKey(node)
    try {
      if (this.#client.status !== 'ready' || key === undefined) throw this.#away
      await bounded(this.#ask(key), this.#options.timeoutMs, timedOut)
    } catch (fault) {
      // The master's slots may have moved to another one meanwhile.
      this.#refreshSlots()
      if (fault !== this.#away) this.#note(fault, node || undefined)
      throw fault
    }
  }

  async #ask(key: string): Promise<void> {
    const client = this.#client
    // The library selects it on connecting, too, but goes on with database 0 where that is refused.
    if (!('slots' in client) && client.options.db) await client.select(client.options.db)
    await this.#probe([key], [])
  }

  #refreshSlots(): void {
    const client = this.#client
    const nowMs = performance.now()
    if (!('slots' in client) || client.status !== 'ready' || nowMs < this.#refreshAtMs) return
    this.#refreshAtMs = nowMs + REFRESH_EVERY_MS
    client.refreshSlotsCache()
  }

  /** Returns a key for probes in a slot of the node; undefined: the node has no slot. */
  #probeKey(node: string): string | undefined {
    const { prefix = 'tollgate' } = this.#options
    if (!('slots' in this.#client)) return `${prefix}:probe`
    if (!this.#client.slots.some(([owner]) => owner === node)) return undefined
    for (let tag = 0; tag < TAGS; tag++) {
      const key = `${prefix}:probe:{${tag}}`
      if (this.#ownerOf(key) === node) return key
    }
    return undefined
  }
}
