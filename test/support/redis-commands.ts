/** What tests write through a store: scripts of it, so that they go by way of the breaker as the gateway's own do. */
import type { RedisStore } from '../../src/state/redis/redis.ts'

export async function hset(store: RedisStore, key: string, field: string, value: string) {
  const text = "redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return {}"
  await store.script(text)([key], [field, value])
}

export async function publish(store: RedisStore, channel: string, message: string) {
  const text = "redis.call('PUBLISH', KEYS[1], ARGV[1]) return {}"
  await store.script(text)([channel], [message])
}
