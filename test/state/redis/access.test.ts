/** Users of Redis with few rights: what the documentation lists is enough, and what is missing is an outage at most. */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createRedisCounter } from '../../../src/state/redis/counter.ts'
import { serversAt } from '../../support/redis-servers.ts'
import { storeClock } from '../../support/store-clock.ts'
import { RedisStore } from '../../../src/state/redis/redis.ts'
import { createRedisBanStore } from '../../../src/state/redis/bans.ts'
import { redisClaims } from '../../../src/state/redis/home.ts'
import { StoreUnavailable } from '../../../src/state/contract.ts'
import { createRedisUsageStore } from '../../../src/state/redis/usage.ts'
import { createRedisAuthority } from '../../../src/state/redis/authority.ts'
import { until } from '../../support/controlled-authority.ts'
import { startRedisServer } from '../../support/redis-server.ts'
import { recovery } from '../../support/redis-shared.ts'

const USER = 'gate:way'
const PASSWORD = 'p@ss /:%#?'
/** As config/gateway.yaml tells it. */
const rights = (): string[] => {
  const text = readFileSync(new URL('../../../config/gateway.yaml', import.meta.url), 'utf8')
  const [, first = '', second = ''] =
    /^ +# +(~tollgate:\* &tollgate:\*.*)\n +# +(\+.*)$/m.exec(text) ?? []
  return `${first} ${second}`.trim().split(/\s+/)
}

describe('a user with the rights that the configuration file lists', async () => {
  const server = await startRedisServer()
  let store: RedisStore
  let states: string[]

  server.cli('ACL', 'SETUSER', 'admin', 'on', '>admin', '~*', '&*', '+@all')
  const admin = (...args: string[]): string =>
    server.cli('--no-auth-warning', '--user', 'admin', '--pass', 'admin', ...args)
  admin('ACL', 'SETUSER', 'default', 'off')
  const grant = (...rules: string[]): string => admin('ACL', 'SETUSER', USER, ...rules)

  beforeEach(() => {
    grant('reset', 'on', `>${PASSWORD}`, ...rights())
    const login = `${encodeURIComponent(USER)}:${encodeURIComponent(PASSWORD)}`
    states = []
    store = new RedisStore({
      servers: serversAt(`redis://${login}@127.0.0.1:${server.port}`),
      timeoutMs: 1_000,
      onState: (available, cause) => states.push(available ? 'up' : cause),
    })
  })
  afterEach(() => store.close())

  const request = {
    process: 'p',
    sequence: 1,
    limits: { perMinute: 10, perDay: 100 },
    minute: { index: -1, used: 0, held: 0 },
    day: { index: -1, used: 0, held: 0 },
    need: 1,
    want: 1,
  }

  it('is all the gateway needs: quotas, bans, strikes, totals of days, claims of notices and messages', async () => {
    await until(() => store.available)
    const authority = createRedisAuthority(store, 'tollgate')
    const reclaimed: string[] = []
    authority.onNotice?.((client) => reclaimed.push(client))
    let client = 0
    // A client that Redis does not know makes it ask for what others hold.
    await until(async () => {
      client += 1
      const reply = await authority.take({ ...request, client: `client-${client}` })
      expect(reply).toMatchObject({ status: 'granted' })
      return reclaimed.length > 0
    })
    const bans = createRedisBanStore(store, 'tollgate', storeClock())
    const ban = { startedMs: Date.now(), untilMs: Date.now() + 60_000, count: 1 }
    await bans.save('key-1', ban)
    expect((await bans.load()).size).toBe(1)
    expect((await bans.load('key-1')).size).toBe(1)
    await bans.forget('key-1', ban)
    expect((await bans.load()).size).toBe(0)
    const counter = createRedisCounter(store, { keyPrefix: 'tollgate:strikes', withinMs: 60_000 })
    expect(await counter.add('key-1', 2, Date.now())).toMatchObject({ total: 2 })
    expect(admin('HGET', 'tollgate:strikes:key-1', 'total')).toBe('2')
    await counter.reset('key-1')
    expect(admin('EXISTS', 'tollgate:strikes:key-1')).toBe('0')
    const usage = createRedisUsageStore(store, 'tollgate')
    const used = { client: 'acme', plan: 'free', admitted: 3 }
    const row = { ...used, refusedMinute: 0, refusedDay: 0, refusedBan: 0 }
    const day = Math.floor(Date.now() / 86_400_000)
    await usage.add({ process: 'p', sequence: 1, day, rows: [row] })
    expect(await usage.client('acme', day, day)).toEqual([[day, row]])
    for await (const rows of usage.day(day)) expect(rows.length).toBeLessThanOrEqual(1)
    const keys = admin('KEYS', 'tollgate:usage:*').split('\n')
    const key = keys.find((name) => admin('HEXISTS', name, 'acme') === '1') ?? ''
    // What somebody else has written there takes nothing from others.
    admin('HSET', key, 'acme by plan', ';free x y 0 0')
    await usage.add({ process: 'p', sequence: 2, day, rows: [row, { ...row, client: 'bolt' }] })
    expect(await usage.client('bolt', day, day)).toEqual([[day, { ...row, client: 'bolt' }]])
    const claims = [redisClaims(store, 'tollgate'), redisClaims(store, 'tollgate')]
    const taken = [await claims[0]?.take('a'), await claims[1]?.take('a')]
    expect(taken).toEqual(['own', 'others'])
    expect(states.at(-1)).toBe('up')
  })

  it.each(['-eval', '-hset', '-hgetall', '-del', '-time', 'resetkeys'])(
    'less one of them (%s) is an outage with a name, decided at once, and over when it is granted',
    async (rule) => {
      await until(() => store.available)
      const authority = createRedisAuthority(store, 'tollgate')
      grant(rule)
      admin('SCRIPT', 'FLUSH')
      // The next connection has to send the script whole.
      admin('CLIENT', 'KILL', 'TYPE', 'normal')
      await until(() => !store.available)
      for (let n = 0; n < 50; n++)
        expect(() => authority.take({ ...request, client: 'late' })).toThrow(StoreUnavailable)
      await sleep(700)
      await until(() => !store.available)
      expect(states.filter((state) => state === 'NOPERM').length).toBeLessThan(4)
      grant(...rights())
      await recovery(server.port, () => store.available)
      expect(await authority.take({ ...request, client: 'late' })).toBeDefined()
    },
  )

  it('less the one that only calls need at first (-evalsha) is away after some of them, and stays so', async () => {
    await until(() => store.available)
    const authority = createRedisAuthority(store, 'tollgate')
    await authority.take({ ...request, client: 'first' })
    grant('-evalsha')
    for (let sequence = 2; store.available; sequence++)
      await expect(authority.take({ ...request, client: 'first', sequence })).rejects.toThrow(
        StoreUnavailable,
      )
    await sleep(1_000)
    expect(states).toEqual(['up', 'NOPERM'])
    grant(...rights())
    await recovery(server.port, () => store.available)
  })

  it('less the channels decides as ever, hears nothing, and does not storm the server', async () => {
    grant('resetchannels')
    await until(() => store.available)
    const authority = createRedisAuthority(store, 'tollgate')
    const reclaimed: string[] = []
    const flows: boolean[] = []
    authority.onNotice?.(
      (client) => reclaimed.push(client),
      (isFlowing) => flows.push(isFlowing),
    )
    const connections = (): number =>
      Number(/total_connections_received:(\d+)/.exec(admin('INFO', 'stats'))?.[1])
    await sleep(200)
    const before = connections()
    for (let n = 0; n < 10; n++) {
      expect(await authority.take({ ...request, client: `mute-${n}` })).toMatchObject({
        status: 'granted',
      })
      await sleep(100)
    }
    // Two of them are those of redis-cli.
    expect(connections() - before).toBeLessThan(2 + 3)
    expect([reclaimed, flows.includes(true), states.at(-1)]).toEqual([[], false, 'up'])
    grant(...rights())
    let client = 0
    await until(async () => {
      client += 1
      await authority.take({ ...request, client: `heard-${client}` })
      return reclaimed.length > 0
    })
    expect(flows.at(-1)).toBe(true)
  })

  it('says when notices are missed: the subscription is lost, or none may be published', async () => {
    await until(() => store.available)
    const authority = createRedisAuthority(store, 'tollgate')
    const flows: boolean[] = []
    authority.onNotice?.(
      () => undefined,
      (isFlowing) => flows.push(isFlowing),
    )
    await until(() => flows.at(-1) === true)
    expect(flows[0]).toBe(false)
    flows.length = 0
    admin('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await until(() => flows.length > 1)
    expect(flows).toEqual([false, true])
    // Of a client that is not known all are asked.
    const meet = async (client: string) => authority.take({ ...request, client })
    grant('-publish')
    expect(await meet('unheard')).toMatchObject({ status: 'granted', notice: 'unknown' })
    expect(flows.at(-1)).toBe(false)
    grant(...rights())
    await meet('heard of')
    await until(() => flows.at(-1) === true)
  })
})
