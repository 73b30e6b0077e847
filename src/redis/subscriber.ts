/** Subscriptions on a connection of their own, opened with the first channel and replaced whenever it is lost. */
import type { Redis } from 'ioredis'
import { isTimeout } from './faults.ts'
import type { Subscription } from './store.ts'

const TICK_MS = 500
const FIRST_RETRY_MS = 50

export interface Subscriber {
  /** Takes effect as soon as there is a server. */
  add(channel: string, subscription: Subscription): void
  /** Leaves the server that is connected now and connects anew. */
  renew(): void
  close(): void
}

/** open: a connection that is not yet connected and ends when it is lost; undefined: none can be had now. */
export function createSubscriber(open: () => Redis | undefined): Subscriber {
  const channels = new Map<string, Subscription[]>()
  /** Channels of the present connection that are subscribed, or being subscribed. */
  const joined = new Set<string>()
  let connection: Redis | undefined
  let ticking: NodeJS.Timeout | undefined
  let retry: NodeJS.Timeout | undefined

  const join = (redis: Redis, channel: string): void => {
    if (joined.has(channel)) return
    joined.add(channel)
    redis.subscribe(channel).then(
      () => {
        if (redis !== connection) return
        for (const subscription of channels.get(channel) ?? []) subscription.subscribed()
      },
      // Refused, perhaps for want of a permission: the next tick asks again.
      () => void (redis === connection && joined.delete(channel)),
    )
  }
  const joinAll = (redis: Redis): void => {
    for (const channel of channels.keys()) join(redis, channel)
  }
  const start = (): void => {
    const redis = open()
    connection = redis
    joined.clear()
    if (redis === undefined) return
    let wasReady = false
    redis.on('error', () => undefined)
    redis.on('ready', () => {
      wasReady = true
      joinAll(redis)
    })
    redis.on('message', (channel: string, text: string) => {
      for (const subscription of channels.get(channel) ?? []) subscription.message(text)
    })
    redis.once('end', () => {
      if (redis !== connection) return
      connection = undefined
      // What could not be reached at all is tried again by the ticks.
      if (wasReady && ticking !== undefined) retry = setTimeout(tick, FIRST_RETRY_MS).unref()
    })
    redis.connect().catch(() => undefined)
  }
  /** Pings find a peer that has vanished without a word. */
  const tick = (): void => {
    if (connection === undefined) return start()
    const redis = connection
    if (redis.status !== 'ready') return
    // A refusal is an answer too.
    redis.ping().catch((fault: unknown) => void (isTimeout(fault) && redis.disconnect()))
    joinAll(redis)
  }
  return {
    add: (channel, subscription) => {
      channels.set(channel, [...(channels.get(channel) ?? []), subscription])
      ticking ??= setInterval(tick, TICK_MS).unref()
      if (connection === undefined) start()
      else if (connection.status === 'ready') {
        if (joined.has(channel)) subscription.subscribed()
        else join(connection, channel)
      }
    },
    renew: () => connection?.disconnect(),
    close: () => {
      clearInterval(ticking)
      clearTimeout(retry)
      ticking = undefined
      const last = connection
      connection = undefined
      last?.disconnect()
    },
  }
}
