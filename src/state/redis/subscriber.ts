/** Subscriptions on a connection of their own, opened with the first channel and replaced whenever it is lost. */
import type { Redis } from 'ioredis'
import type { RedisConfig } from '../../config/config.ts'
import { nameOf } from '../../config/hosts.ts'
import type { createConnections } from './connections.ts'

export interface Subscription {
  /** The channel is about to be subscribed to: the connection takes other commands, too, until then. */
  joining?(redis: Redis): void
  message(text: string): void
  /** The subscription is active (again): messages published before this moment may have been missed. */
  subscribed?(): void
  /** The subscription was lost: messages may be missed until it is active again. */
  lost?(): void
}

const TICK_MS = 500

export class Subscriber {
  readonly #open: () => Redis
  readonly #onFault: (fault: unknown, redis: Redis) => void
  /** Keyed by channel. */
  readonly #subscriptions = new Map<string, Subscription>()
  /** Channels subscribed, or being subscribed, on the present connection. */
  readonly #joined = new Set<string>()
  /** Written by #start, by its end and by close. */
  #connection: Redis | undefined
  /** Runs from the first channel on, until close. */
  #ticking: NodeJS.Timeout | undefined

  /** open: makes a connection that connects at once and ends when it is lost. onFault: called with what keeps one from opening. */
  constructor(open: () => Redis, onFault: (fault: unknown, redis: Redis) => void) {
    this.#open = open
    this.#onFault = onFault
  }

  /** Called once for each channel; takes effect as soon as there is a server. */
  add(channel: string, subscription: Subscription): void {
    this.#subscriptions.set(channel, subscription)
    this.#ticking ??= setInterval(() => this.#tick(), TICK_MS).unref()
    if (this.#connection === undefined) this.#start()
    else if (this.#connection.status === 'ready') this.#join(this.#connection)
  }

  /** Leaves the present server and connects anew. */
  renew(): void {
    this.#connection?.disconnect()
  }

  close(): void {
    clearInterval(this.#ticking)
    this.#ticking = undefined
    const last = this.#connection
    this.#connection = undefined
    last?.disconnect()
  }

  #start(): void {
    const redis = this.#open()
    this.#connection = redis
    this.#joined.clear()
    redis.on('error', (fault) => this.#onFault(fault, redis))
    redis.on('ready', () => this.#join(redis))
    redis.on('message', (channel: string, text: string) =>
      this.#subscriptions.get(channel)?.message(text),
    )
    redis.once('end', () => {
      if (redis !== this.#connection) return
      this.#connection = undefined
      // The next tick opens another.
      for (const { lost } of this.#subscriptions.values()) lost?.()
    })
  }

  /** A connection whose ping is not answered is given up (socketTimeout). */
  #tick(): void {
    const redis = this.#connection
    if (redis === undefined) return this.#start()
    if (redis.status !== 'ready') return
    // A refusal is an answer too.
    redis.ping().catch(() => undefined)
    this.#join(redis)
  }

  /** Subscribes to the channels for which it has not asked yet. */
  #join(redis: Redis): void {
    for (const [channel, subscription] of this.#subscriptions) {
      if (this.#joined.has(channel)) continue
      this.#joined.add(channel)
      subscription.joining?.(redis)
      redis.subscribe(channel).then(
        () => void (redis === this.#connection && subscription.subscribed?.()),
        // The server refused, perhaps for lack of a permission; the next tick asks again.
        () => void (redis === this.#connection && this.#joined.delete(channel)),
      )
    }
  }
}

/** Opens the subscriber of the store, and one that leaves a master for the one that the sentinels have named in its place. */
export function openSubscribers(
  connections: ReturnType<typeof createConnections>,
  servers: RedisConfig,
  note: (fault: unknown, server?: string) => void,
): [Subscriber, Subscriber?] {
  const { client, openSubscriber, openSentinel } = connections
  // In a cluster this reports faults that the library hides, such as a certificate that is not trusted.
  const subscriber = new Subscriber(openSubscriber, (fault, { options }) =>
    note(fault, servers.kind === 'sentinels' ? undefined : nameOf(options)),
  )
  if (openSentinel === undefined || servers.kind !== 'sentinels') return [subscriber]
  const watch = new Subscriber(openSentinel, (fault, { options }) => note(fault, nameOf(options)))
  /** HOST:PORT of the master that a sentinel has named last. */
  let named: string | undefined
  const leaveFor = (host?: string, port?: string): void => {
    named = `${host}:${port}`
    const { remoteAddress, remotePort } = client.stream ?? {}
    if (remoteAddress === host && String(remotePort) === port) return
    // A connection that is not yet there asks the sentinels by itself.
    if (client.status === 'ready' || client.status === 'connect') client.disconnect(true)
    subscriber.renew()
  }
  // The connection itself does not report it, and an old master that no sentinel reaches goes on taking writes that will be lost.
  watch.add('+switch-master', {
    // It may have been named while no sentinel was listened to.
    joining: (sentinel) =>
      void sentinel.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', servers.name).then(
        (reply) => {
          const [host, port] = (reply ?? []) as string[]
          if (host === undefined) return
          named ??= `${host}:${port}`
          if (named !== `${host}:${port}`) leaveFor(host, port)
        },
        () => undefined,
      ),
    message: (text) => {
      const [name, , , host, port] = text.split(' ')
      if (name === servers.name) leaveFor(host, port)
    },
  })
  return [subscriber, watch]
}
