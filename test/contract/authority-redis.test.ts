import { beforeAll, describe, expect, it } from 'vitest'
import { StoreUnavailable } from '../../src/state/contract.ts'
import type { RedisStore } from '../../src/state/redis/redis.ts'
import { createRedisAuthority, quotaKey } from '../../src/state/redis/authority.ts'
import type { Authority } from '../../src/state/quota.ts'
import { connectedStore, controlledRedisAuthority } from '../support/controlled-authority.ts'
import { START_MS } from '../support/controlled-authority.ts'
import { sharedRedis, startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { authorityContract, call } from './authority.ts'

authorityContract(
  'Redis',
  async (time) => {
    const { url, prefix } = sharedRedis()
    const store = await connectedStore(url)
    return controlledRedisAuthority(store, { time, prefix })
  },
  { losesData: true },
)

describe('the hash of a client in Redis', () => {
  let server: RedisServer
  let store: RedisStore
  let authority: Authority
  const time = { ms: START_MS }

  beforeAll(async () => {
    server = await startRedisServer()
    store = await connectedStore(server.url)
    authority = controlledRedisAuthority(store, { time, prefix: 'hash' })
  })

  it('is tagged with the client, so that one client is one slot', () => {
    expect(quotaKey('tollgate', 'acme')).toBe('tollgate:q:{acme}')
    expect(quotaKey('tollgate', 'a}:%')).toBe('tollgate:q:{a%007d%003a%0025}')
  })

  it('expires an hour after the day has ended', async () => {
    await authority.take(call('expiring'))
    const expiresAtMs = Number(server.cli('PEXPIRETIME', 'hash:q:{expiring}'))
    expect(expiresAtMs).toBe((Math.floor(START_MS / 86_400_000) + 1) * 86_400_000 + 3_600_000)
  })

  it('may contain anything: what is no count is taken for none', async () => {
    const key = quotaKey('hash', 'garbage')
    const garbage = ['', 'x', '-5', '1e9', 'nan', 'inf', '0x10', '9'.repeat(400), '1.5', ' 7']
    const fields = ['minute', 'minuteTaken', 'activeNow', 'day', 'dayUsed', 'learningUntil']
    for (const text of garbage) {
      server.cli('DEL', key)
      const all = fields.flatMap((field) => [field, text])
      server.cli('HSET', key, ...all, 'process:a', `1:0:${text}:1:1:1:1`)
      expect(await authority.take(call('garbage')), JSON.stringify(text)).toMatchObject({
        status: 'granted',
        minute: { held: 1, taken: 1, used: 1 },
      })
    }
  })

  it('is an outage, not a refusal, when the key has another type, and no other client is hit', async () => {
    server.cli('SET', quotaKey('hash', 'wrong'), 'text')
    for (let n = 1; n < 10; n++)
      await expect(authority.take(call('wrong', n))).rejects.toThrow(StoreUnavailable)
    expect(store.available).toBe(true)
    expect(await authority.take(call('right'))).toMatchObject({ status: 'granted' })
  })

  const windows = ', 1'.repeat(10)
  it.each(['0, 1, 0', `0, 'now', 0${windows}`, `9, 1, 0${windows}`])(
    'is an outage where a script answers {%s}, as limits would be wrong without an error',
    async (reply) => {
      const script = () => store.script(`return {${reply}}`)
      const answering: Partial<RedisStore> = { script }
      const odd = createRedisAuthority(answering as RedisStore, 'odd')
      await expect(odd.take(call('odd'))).rejects.toThrow(StoreUnavailable)
    },
  )

  it('keeps the time of the server itself outside of tests', async () => {
    const real = createRedisAuthority(store, 'real')
    const beforeMs = Date.now()
    const reply = await real.take(call('anyone'))
    expect(reply.nowMs).toBeGreaterThanOrEqual(beforeMs)
    expect(reply.nowMs).toBeLessThanOrEqual(Date.now() + 1)
    expect(reply.minute.index).toBe(Math.floor((reply.nowMs - 1) / 60_000))
  })
})
