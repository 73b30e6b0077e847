/** Gateways on Redis as it is run: behind sentinels, as a cluster, behind TLS with a user of its own. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { quotaKey } from '../../src/quota/authorities/redis.ts'
import { isMaster } from '../support/redis-shared.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { startSentinelGroup } from '../support/redis-sentinel.ts'
import { makeCertificates, startTlsRedisServer } from '../support/redis-tls.ts'
import {
  acquainted,
  clientsBlock,
  configFile,
  endAll,
  eventually,
  gatewayProcess,
  pick,
  quotaInRedis,
  rawBackend,
  tally,
  times,
  tollgate,
  type Answer,
  type GatewayProcess,
  type TestClient,
  linesOf,
} from './gateways.ts'
import { expectDecidedInTime, expectRecovery, startLoad, tellsQuota } from './store-load.ts'

const closing: (() => Promise<void> | void)[] = []
afterAll(async () => {
  await endAll()
  for (const close of closing.splice(0)) await close()
})

async function gatewaysOn(
  store: string,
  clients: readonly TestClient[],
  lease: 'auto' | 'off' = 'auto',
) {
  const backend = await rawBackend()
  const file = configFile(backend.url, {
    store: `store: { redis: ${store}, onOutage: local, lease: ${lease} }`,
    clients: clientsBlock(clients),
    bans: 'bans: { grace: 0s, strikes: 3, within: 10s }',
  })
  const gateways = await Promise.all(times(2, () => gatewayProcess(file)))
  return { backend, gateways }
}

/** Gets the key banned on the first gateway, and waits until the others know. */
async function ban(gateways: readonly GatewayProcess[], key: string): Promise<void> {
  const isBanned = async (gateway: GatewayProcess): Promise<boolean> =>
    (await gateway.call(key)).code === 'api_key_banned'
  await eventually('the ban', () => isBanned(pick(gateways, 0)))
  for (const gateway of gateways) await eventually('the ban elsewhere', () => isBanned(gateway))
}

const bannedEverywhere = async (
  gateways: readonly GatewayProcess[],
  key: string,
): Promise<boolean> => {
  const answers = await Promise.all(gateways.map((gateway) => gateway.call(key)))
  return answers.every(({ code }) => code === 'api_key_banned')
}

/** One gateway is told to stop while the store is there, the others when it is gone. */
async function expectCleanStop(
  [first, ...others]: readonly GatewayProcess[],
  stopStore: () => Promise<void>,
): Promise<void> {
  first?.signal('SIGTERM')
  expect((await first?.finished)?.code).toBe(0)
  await stopStore()
  await sleep(500)
  for (const gateway of others) gateway.signal('SIGTERM')
  for (const gateway of others) expect((await gateway.finished).code).toBe(0)
}

const big = { id: 'big', keys: ['tg_topology_big'], perMinute: 1_000_000 }
/** Of the day, so that a slow machine may take longer than a minute. */
const small = { id: 'small', keys: ['tg_topology_small'], perMinute: 120, perDay: 120 }
const naughty = { id: 'naughty', keys: ['tg_topology_naughty'], perMinute: 1 }
const keyOf = ({ keys }: TestClient): string => pick(keys, 0)

describe('behind sentinels', () => {
  it('a master that is killed with writes its replica lacks costs no decision its time, no limit its worth and no ban its hold', async () => {
    const group = await startSentinelGroup()
    closing.push(() => group.stop())
    const store = `{ sentinels: [${group.addresses.join(', ')}], name: ${group.name} }`
    const { backend, gateways } = await gatewaysOn(store, [big, small, naughty])
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
    expect(tally(whole())).toEqual({ '200': whole().length })

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
  it('a master that is killed costs the clients of the others nothing, and its own no more than an outage', async () => {
    const cluster = await startRedisCluster()
    closing.push(() => cluster.stop())
    const ids = times(40, (at) => `client-${at}`)
    const idOn = (at: number): string =>
      ids.find((id) => cluster.ownerOf(quotaKey('tollgate', id)) === cluster.masters[at]) ?? ''
    const client = (at: number): TestClient => ({
      id: idOn(at),
      keys: [`tg_topology_${idOn(at)}`],
      perMinute: 1_000_000,
    })
    const [lost, other] = [client(0), client(1)]
    const store = `{ cluster: [${cluster.nodes.slice(1).join(', ')}] }`
    // Each request asks, so that each is one of the store: with leases most would never notice.
    const { backend, gateways } = await gatewaysOn(store, [lost, other, naughty], 'off')
    await acquainted(cluster, gateways.length)
    await ban(gateways, keyOf(naughty))
    const before = backend.requests.length

    const loads = [lost, other].map((each) => startLoad(gateways, { key: keyOf(each), callers: 2 }))
    const [lostLoad, otherLoad] = [pick(loads, 0), pick(loads, 1)]
    const isWarm = (): boolean =>
      loads.every(({ answers }) => answers.filter(tellsQuota).length > 40)
    await eventually('answers with the store', isWarm)
    const [ofLost, ofOther] = [lostLoad.since(), otherLoad.since()]
    await cluster.masters[0]?.kill()
    await eventually('an answer without the store', () => ofLost().some((a) => !tellsQuota(a)))
    expect(await bannedEverywhere(gateways, keyOf(naughty))).toBe(true)
    await eventually('the failover', () => isMaster(cluster.replicas[0]?.port ?? 0))
    await expectRecovery(lostLoad)
    await eventually('answers with the store only', () =>
      lostLoad.answers.slice(-20).every(tellsQuota),
    )
    await Promise.all(loads.map((load) => load.stop()))
    for (const [answers, load] of [
      [ofLost(), lostLoad],
      [ofOther(), otherLoad],
    ] as const) {
      expectDecidedInTime(answers, load.undecidedMs)
      // A call that was under way when the master died costs who waited for it, as does one for which the machine was too slow.
      const { '200': admitted = 0, '503 service_unavailable': waited = 0 } = tally(answers)
      expect(admitted + waited).toBe(answers.length)
      expect(waited).toBeLessThanOrEqual(Math.max(2, answers.length / 20))
    }
    // All of them, but for the calls that a busy machine was too slow for.
    const share = ofOther().filter(tellsQuota).length / ofOther().length
    expect(share).toBeGreaterThan(0.8)
    const charged = (): number =>
      [lost, other].reduce((sum, { id }, at) => {
        const holder = at === 0 ? cluster.replicas[0] : cluster.masters[1]
        return sum + (holder === undefined ? 0 : quotaInRedis(holder, id).dayUsed)
      }, 0)
    await eventually('the charges', () => charged() === backend.requests.length - before)
    for (const gateway of gateways) {
      expect(gateway.logged('storeLost').length).toBeGreaterThan(0)
      await eventually(
        'a whole store',
        async () => (await gateway.metric('tollgate_store_up')) === 1,
      )
    }
    await expectCleanStop(gateways, () => cluster.stop())
  })
})

describe('behind TLS, with a certificate and a user of its own', () => {
  it('works, tells no secret, and does not start with a file that is missing', async () => {
    const certificates = makeCertificates()
    closing.push(() => certificates.remove())
    const redis = await startTlsRedisServer(certificates, certificates.server)
    closing.push(() => redis.stop())
    const rights = ['~tollgate:*', '&tollgate:*', '+@all', '-@dangerous', '-@admin']
    redis.cli('ACL', 'SETUSER', 'gate', 'on', '>hidden: @/', ...rights)
    const { ca, client } = certificates
    const store = (caFile: string): string =>
      [
        `{ url: "rediss://127.0.0.1:${redis.tlsPort}"`,
        'username: gate',
        'password: "${GATE_PASSWORD}"',
        `tls: { ca: ${caFile}, cert: ${client.cert}, key: ${client.key} } }`,
      ].join(', ')
    const backend = await rawBackend()
    const file = (caFile: string): string =>
      configFile(backend.url, {
        store: `store: { redis: ${store(caFile)} }`,
        clients: clientsBlock([big]),
      })
    const env = { GATE_PASSWORD: 'hidden: @/' }
    const gateway = await gatewayProcess(file(ca), { env })
    const answers = await Promise.all(times(10, () => gateway.call(keyOf(big))))
    expect(tally(answers)).toEqual({ '200': 10 })
    expect(answers.every(tellsQuota)).toBe(true)
    await eventually('the charges', () => quotaInRedis(redis, 'big').dayUsed === 10)
    redis.cli('ACL', 'SETUSER', 'gate', 'off')
    redis.cli('CLIENT', 'KILL', 'USER', 'gate')
    await eventually('the loss', () => gateway.logged('storeLost').length > 0)
    await eventually('the refusal', async () => !tellsQuota(await gateway.call(keyOf(big))))
    redis.cli('ACL', 'SETUSER', 'gate', 'on')
    await eventually('the return', () => gateway.logged('storeBack').length > 0)
    const metrics = await (await fetch(`${gateway.adminOrigin}/metrics`)).text()
    expect(gateway.stdout() + gateway.stderr() + metrics).not.toContain('hidden')

    const started = tollgate(['start', '--config', file('/nowhere/ca.pem')], { env })
    const { code, stderr } = await started.finished
    expect(code).toBe(2)
    expect(linesOf(stderr).at(-1)).toMatchObject({
      event: 'configRefused',
      problems: [
        expect.stringMatching(
          /^\S+:\d+:\d+ store\.redis\.tls\.ca: "\/nowhere\/ca\.pem" cannot be read \(ENOENT\); check its name and permissions$/,
        ),
      ],
    })
  })
})
