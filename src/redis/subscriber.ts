/** Subscriptions on a connection of their own, opened with the first channel and replaced whenever it is lost. */
import type { Redis } from 'ioredis'
import { isTimeout } from './faults.ts'
import type { Subscription } from './store.ts'

const TICK_MS = 500
const FIRST_RETRY_MS = 50

interface SubscriberOptions {
  /** A connection that is not yet connected and ends when it is lost; undefined: none can be had now. */
  readonly open: () => Redis | undefined
  /** What keeps a connection from being had. */
  readonly onFault: (fault: unknown, redis: Redis) => void
}

export class Subscriber {
  readonly #options: SubscriberOptions
  readonly #channels = new Map<string, Subscription[]>()
  /** Channels of the present connection that are subscribed, or being subscribed. */
  readonly #joined = new Set<string>()
  /** Written by #start, by its end and by close. */
  #connection: Redis | undefined
  /** From the first channel on, until close. */
  #ticking: NodeJS.Timeout | undefined
  #retry: NodeJS.Timeout | undefined

  constructor(options: SubscriberOptions) {
    this.#options = options
  }

  /** Takes effect as soon as there is a server. */
  add(channel: string, subscription: Subscription): void {
    this.#channels.set(channel, [...(this.#channels.get(channel) ?? []), subscription])
    this.#ticking ??= setInterval(() => this.#tick(), TICK_MS).unref()
    if (this.#connection === undefined) this.#start()
    else if (this.#connection.status === 'ready') {
      if (this.#joined.has(channel)) subscription.subscribed()
      else this.#join(this.#connection, channel)
    }
  }

  /** Leaves the server that is connected now and connects anew. */
  renew(): void {
    this.#connection?.disconnect()
  }

  close(): void {
    clearInterval(this.#ticking)
    clearTimeout(this.#retry)
    this.#ticking = undefined
    const last = this.#connection
    this.#connection = undefined
    last?.disconnect()
  }

  #start(): void {
    const redis = this.#options.open()
    this.#connection = redis
    this.#joined.clear()
    if (redis === undefined) return
    let wasReady = false
    redis.on('error', (fault) => this.#options.onFault(fault, redis))
    redis.on('ready', () => {
      wasReady = true
      this.#joinAll(redis)
    })
    redis.on('message', (channel: string, text: string) => {
      for (const subscription of this.#channels.get(channel) ?? []) subscription.message(text)
    })
    redis.once('end', () => {
      if (redis !== this.#connection) return
      this.#connection = undefined
      // What could not be reached at all is tried again by the ticks.
      if (wasReady && this.#ticking !== undefined)
        this.#retry = setTimeout(() => this.#tick(), FIRST_RETRY_MS).unref()
    })
    redis.connect().catch(() => undefined)
  }

  /** Pings find a peer that has vanished without a word. */
  #tick(): void {
    const redis = this.#connection
    if (redis === undefined) return this.#start()
    if (redis.status !== 'ready') return
    // A refusal is an answer too.
    redis.ping().catch((fault: unknown) => void (isTimeout(fault) && redis.disconnect()))
    this.#joinAll(redis)
  }

  #joinAll(redis: Redis): void {
    for (const channel of this.#channels.keys()) this.#join(redis, channel)
  }

  #join(redis: Redis, channel: string): void {
    if (this.#joined.has(channel)) return
    this.#joined.add(channel)
    redis.subscribe(channel).then(
      () => {
        if (redis !== this.#connection) return
        for (const subscription of this.#channels.get(channel) ?? []) subscription.subscribed()
      },
      // Refused, perhaps for want of a permission: the next tick asks again.
      () => void (redis === this.#connection && this.#joined.delete(channel)),
    )
  }
}
