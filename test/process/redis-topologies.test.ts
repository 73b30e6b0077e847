/** Gateways on Redis as it is run: behind sentinels, and as a cluster. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { quotaKey } from '../../src/state/redis/authority.ts'
import { isMaster } from '../support/redis-shared.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { startSentinelGroup } from '../support/redis-sentinel.ts'
import { acquainted, clientsBlock, configFile, eventually, gatewayProcess } from './gateways.ts'
import { pick, quotaInRedis, startRawBackend, tally, times, gatewayHere } from './gateways.ts'
import type { Answer, GatewayProcess, TestClient, GatewayHere } from './gateways.ts'
import { expectDecidedInTime, expectRecovery, startLoad, tellsQuota } from './store-load.ts'

async function gatewaysOn(
  store: string,
  clients: readonly TestClient[],
  start: typeof gatewayProcess | typeof gatewayHere,
) {
  const backend = await startRawBackend()
  const file = configFile(backend.url, {
    store: `store: { redis: ${store}, onOutage: local, lease: ${start === gatewayHere ? 'off' : 'auto'} }`,
    clients: clientsBlock(clients),
    bans: 'bans: { grace: 0s, strikes: 3, within: 10s }',
  })
  const gateways = await Promise.all(times(2, () => start(file)))
  return { backend, gateways }
}

/** Gets the key banned on the first gateway, and waits until the others know. */
async function ban(gateways: readonly Pick<GatewayProcess, 'call'>[], key: string): Promise<void> {
  const isBanned = async (gateway: Pick<GatewayProcess, 'call'>): Promise<boolean> =>
    (await gateway.call(key)).code === 'api_key_banned'
  await eventually('the ban', () => isBanned(pick(gateways, 0)))
  for (const gateway of gateways) await eventually('the ban elsewhere', () => isBanned(gateway))
}

const bannedEverywhere = async (
  gateways: readonly Pick<GatewayProcess, 'call'>[],
  key: string,
): Promise<boolean> => {
  const answers = await Promise.all(gateways.map((gateway) => gateway.call(key)))
  return answers.every(({ code }) => code === 'api_key_banned')
}

/** One gateway is told to stop while the store is there, the others when it is gone. */
async function expectCleanStop(
  [first, ...others]: readonly (GatewayProcess | GatewayHere)[],
  stopStore: () => Promise<unknown>,
): Promise<void> {
  const stop = async (gateway: typeof first): Promise<void> => {
    if (gateway === undefined || 'stop' in gateway) return gateway?.stop()
    gateway.signal('SIGTERM')
    expect((await gateway.finished).code).toBe(0)
  }
  await stop(first)
  await stopStore()
  await sleep(500)
  await Promise.all(others.map(stop))
}

/** A call that was under way when the master died costs who waited for it, as does one for which the machine was too slow. */
function expectServed(answers: readonly Answer[]): void {
  const { '200': admitted = 0, '503 service_unavailable': waited = 0 } = tally(answers)
  expect(admitted + waited).toBe(answers.length)
  expect(waited).toBeLessThanOrEqual(Math.max(2, answers.length / 20))
}

const big = { id: 'big', keys: ['tg_topology_big'], perMinute: 1_000_000 }
/** Of the day, so that a slow machine may take longer than a minute. */
const small = { id: 'small', keys: ['tg_topology_small'], perMinute: 120, perDay: 120 }
const naughty = { id: 'naughty', keys: ['tg_topology_naughty'], perMinute: 1 }
const keyOf = ({ keys }: TestClient): string => pick(keys, 0)

describe('behind sentinels', () => {
  it('a master that is killed with writes its replica lacks costs no decision its time, no limit its worth and no ban its hold', async () => {
    const group = await startSentinelGroup()
    const store = `{ sentinels: [${group.addresses.join(', ')}], name: ${group.name} }`
    const { backend, gateways } = await gatewaysOn(store, [big, small, naughty], gatewayProcess)
    await acquainted(group.master, gateways.length)
    await ban(gateways, keyOf(naughty))
    // What each process holds of the small client before the failover goes on to count after it.
    const spend = (count: number): Promise<Answer[]> =>
      Promise.all(times(count, (at) => pick(gateways, at).call(keyOf(small))))
    for (let round = 0; round < 10; round++) await spend(2)
    const seenOf = ({ id }: TestClient): number =>
      backend.requests.filter((request) => request.header('x-client-id') === id).length

    const load = startLoad(gateways, { key: keyOf(big) })
    await eventually('answers with the store', () => load.answers.filter(tellsQuota).length > 40)
    const whole = load.since()
    // What is spent from here on, the replica never hears of: replication does not wait for it.
    group.replica.freeze()
    group.master.cli('CLIENT', 'KILL', 'TYPE', 'replica')
    await spend(10)
    await group.master.kill()
    group.replica.thaw()
    await spend(10)
    await sleep(300)
    expect(await bannedEverywhere(gateways, keyOf(naughty))).toBe(true)
    await group.untilMaster(group.replica)
    await expectRecovery(load)
    await eventually('answers with the store only', () => {
      const last = load.answers.slice(-20)
      return last.every((answer) => answer.status === 200 && tellsQuota(answer))
    })
    await load.stop()
    expectDecidedInTime(whole(), load.undecidedMs)
    expectServed(whole())

    for (let round = 0; round < 20; round++) await spend(10)
    expect(seenOf(small)).toBeLessThanOrEqual(120)
    expect(seenOf(small)).toBeGreaterThan(110)
    expect(await bannedEverywhere(gateways, keyOf(naughty))).toBe(true)
    // The charges arrive at the new master; a lease whose grant was on the way when the old one died is nobody's, and stays taken.
    const charged = (): number => {
      const unstated = group.replica.cli('HGET', quotaKey('tollgate', 'big'), 'unstated')
      return quotaInRedis(group.replica, 'big').dayUsed - Number(unstated.split(':')[2] ?? 0)
    }
    await expect.poll(charged, { timeout: 30_000 }).toBe(seenOf(big))
    for (const gateway of gateways) {
      const [lost] = gateway.logged('storeLost')
      expect(lost?.['cause']).toMatch(/^(connection lost|timeout|ECONNREFUSED|ECONNRESET|EPIPE)$/)
      expect(await gateway.metric('tollgate_store_up')).toBe(1)
    }
    await expectCleanStop(gateways, () => group.stop())
  })
})

describe('on a cluster', () => {
  it('a master that is killed costs its clients no more than an outage, is named, and its bans hold', async () => {
    const cluster = await startRedisCluster()
    const ids = times(40, (at) => `client-${at}`)
    const on = (master: number): TestClient => {
      const owner = cluster.masters[master]
      const id = ids.find((each) => cluster.ownerOf(quotaKey('tollgate', each)) === owner) ?? ''
      return { id, keys: [`tg_topology_${id}`], perMinute: 1_000_000 }
    }
    const [first, other] = [on(0), on(1)]
    const store = `{ cluster: [${cluster.nodes.slice(1).join(', ')}] }`
    // Each request asks, so that each is one of the store: with leases most would never notice.
    const { backend, gateways } = await gatewaysOn(store, [first, other, naughty], gatewayHere)
    await acquainted(cluster, gateways.length)
    await ban(gateways, keyOf(naughty))
    const before = backend.requests.length

    const loads = [first, other].map((each) =>
      startLoad(gateways, { key: keyOf(each), callers: 2 }),
    )
    await eventually('answers with the store', () =>
      loads.every(({ answers }) => answers.filter(tellsQuota).length > 20),
    )
    const [ofFirst, ofOther] = loads.map((load) => load.since()) as [() => Answer[], () => Answer[]]
    await cluster.masters[0]?.kill()
    await eventually('an answer without the store', () => !ofFirst().every(tellsQuota))
    expect(await bannedEverywhere(gateways, keyOf(naughty))).toBe(true)
    await eventually('the failover', () => isMaster(cluster.replicas[0]?.port ?? 0))
    await expectRecovery(pick(loads, 0))
    await Promise.all(loads.map((load) => load.stop()))
    expectServed(ofFirst())
    expectServed(ofOther())
    // All of them, but for the calls that a busy machine was too slow for.
    expect(ofOther().filter(tellsQuota).length / ofOther().length).toBeGreaterThan(0.8)
    const charged = (): number =>
      [cluster.replicas[0], cluster.masters[1]].reduce((sum, holder, at) => {
        const { id } = at === 0 ? first : other
        return sum + (holder === undefined ? 0 : quotaInRedis(holder, id).dayUsed)
      }, 0)
    await eventually('the charges', () => charged() === backend.requests.length - before)
    for (const { logged, metric } of gateways) {
      expect(logged('storeLost').length).toBeGreaterThan(0)
      await eventually('a whole store', async () => (await metric('tollgate_store_up')) === 1)
    }
    await expectCleanStop(gateways, () => cluster.stop())
  })
})
