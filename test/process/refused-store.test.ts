/** Gateways that Redis refuses, or whose Redis is not what the configuration takes it for: waiting would not help, and each would count for itself. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { startSentinelGroup } from '../support/redis-sentinel.ts'
import {
  makeCertificates,
  startTlsRedisServer,
  type Certificates,
  type TlsRedisServer,
} from '../support/redis-tls.ts'
import { freePort } from '../support/redis-server.ts'
import { flags } from '../support/redis-shared.ts'
import {
  clientsBlock,
  configFile,
  decided,
  endAll,
  eventually,
  gatewayProcess,
  rawBackend,
  tollgate,
  linesOf,
} from './gateways.ts'

let redis: RedisServer
let secure: TlsRedisServer
let misnamed: TlsRedisServer
let certificates: Certificates
const closing: (() => Promise<void> | void)[] = []
beforeAll(async () => {
  certificates = makeCertificates()
  redis = await startRedisServer('--databases', '4')
  redis.cli('ACL', 'SETUSER', 'gate', 'on', '>hidden', '~*', '&*', '+@all')
  redis.cli('ACL', 'SETUSER', 'limited', 'on', '>hidden', '~*', '&*', '+@all', '-hset')
  redis.cli('ACL', 'SETUSER', 'fixed', 'on', '>hidden', '~*', '&*', '+@all', '-select')
  redis.cli('ACL', 'SETUSER', 'default', 'resetpass', '>other')
  secure = await startTlsRedisServer(certificates, certificates.server)
  misnamed = await startTlsRedisServer(certificates, certificates.misnamed)
  closing.push(...[redis, secure, misnamed].map((server) => () => server.stop()))
})
afterAll(async () => {
  await endAll()
  for (const close of closing.splice(0)) await close()
  certificates.remove()
})

const file = (upstream: string, store: string, workers = 1): string =>
  configFile(upstream, {
    store: `store: { redis: ${store}, onOutage: local }`,
    server: `server: { listen: "127.0.0.1:0", workers: ${workers} }`,
    clients: clientsBlock([{ id: 'acme', keys: ['tg_refused_key'], perMinute: 10 }]),
  })

/** What the start ends with, among lines of the log. */
async function refusalOf(store: string, workers = 1): Promise<string> {
  const path = file('http://127.0.0.1:1', store, workers)
  const startedMs = performance.now()
  const { code, stdout, stderr } = await tollgate(['start', '--config', path]).finished
  expect([code, stdout]).toEqual([1, ''])
  // The rest is for a machine that is busy with other tests.
  expect(performance.now() - startedMs).toBeLessThan(5_000 + 20_000)
  expect(stderr).not.toContain('hidden')
  return String(linesOf(stderr).find((line) => line['event'] === 'startFailed')?.['message'])
}

describe.concurrent('a start ends with server, fault and remedy', () => {
  const at = (user: string, path = ''): string => `redis://${user}@127.0.0.1:${redis.port}${path}`
  const overTls = (port: number, ca: string, { cert, key } = certificates.client): string =>
    `{ url: "rediss://127.0.0.1:${port}", tls: { ca: ${ca}, cert: ${cert}, key: ${key} } }`
  const said = (port: number, fault: string): string => `store.redis: 127.0.0.1:${port}: ${fault}`

  it.each([
    [
      'a wrong password',
      'gate:hidden-not',
      '',
      'WRONGPASS: it knows no such user, or another password; ',
    ],
    ['an unknown user', 'nobody:hidden', '', 'WRONGPASS: it knows no such user'],
    ['no password', '', '', 'NOAUTH: it asks for a password; give one'],
    ['a right that is missing', 'limited:hidden', '', 'NOPERM: its user lacks a right'],
    [
      'a database that it has not',
      'gate:hidden',
      '/9',
      'NO_DATABASE: it has no database of this number; ',
    ],
    [
      'a database that the user may not choose',
      'fixed:hidden',
      '/2',
      'NOPERM: its user lacks a right',
    ],
  ])('for %s', async (_, user, path, fault) => {
    const url = at(user, path).replace('//@', '//')
    expect(await refusalOf(`"${url}"`)).toContain(said(redis.port, fault))
  })

  it('for a certificate of another authority, or for another name, and for one of ours that is not taken', async () => {
    const { ca, foreign } = certificates
    const url = `"rediss://127.0.0.1:${secure.tlsPort}"`
    const [untrusted, misdirected, unproven] = await Promise.all([
      refusalOf(overTls(secure.tlsPort, foreign.ca)),
      refusalOf(overTls(misnamed.tlsPort, ca)),
      refusalOf(`{ url: ${url}, tls: { ca: ${ca} } }`),
    ])
    expect(untrusted).toContain(
      said(
        secure.tlsPort,
        'SELF_SIGNED_CERT_IN_CHAIN: no trusted authority has signed its certificate; ',
      ),
    )
    expect(misdirected).toContain(
      said(misnamed.tlsPort, 'ERR_TLS_CERT_ALTNAME_INVALID: its certificate is for another name; '),
    )
    expect(unproven).toMatch(
      new RegExp(`^${said(secure.tlsPort, 'ERR_SSL_')}\\w+: it refuses the TLS connection; `),
    )
  })

  it('for TLS where there is none, and the other way round', async () => {
    expect(await refusalOf(`"rediss://127.0.0.1:${redis.port}"`)).toContain(
      said(redis.port, 'NO_TLS: it does not speak TLS; '),
    )
    expect(await refusalOf(`"redis://127.0.0.1:${secure.tlsPort}"`)).toContain(
      said(secure.tlsPort, 'TLS_ONLY: it speaks TLS; '),
    )
  })

  it('for sentinels that know no such master, or whose master has another password', async () => {
    const group = await startSentinelGroup()
    closing.push(() => group.stop())
    const sentinels = group.addresses.join(', ')
    expect(await refusalOf(`{ sentinels: [${sentinels}], name: unheard }`)).toContain(
      `store.redis: master unheard of the sentinels ${sentinels}: NO_MASTER: no master of this name is known; `,
    )
    group.master.cli('ACL', 'SETUSER', 'default', 'resetpass', '>other')
    const login = 'username: default, password: hidden'
    expect(
      await refusalOf(`{ sentinels: [${sentinels}], name: ${group.name}, ${login} }`),
    ).toContain(`master ${group.name} of the sentinels ${sentinels}: WRONGPASS: `)
  })

  it('for a cluster with another password, or with a certificate that is not trusted', async () => {
    const cluster = await startRedisCluster({ replicas: false })
    closing.push(() => cluster.stop())
    const login = 'username: gate, password: hidden'
    expect(await refusalOf(`{ cluster: [${cluster.nodes.join(', ')}], ${login} }`)).toMatch(
      /^store\.redis: .*127\.0\.0\.1:\d+.*: WRONGPASS: /,
    )
    const options = {
      'cluster-enabled': 'yes',
      'cluster-port': await freePort(),
      'tls-cluster': 'yes',
    }
    const node = await startTlsRedisServer(certificates, certificates.server, ...flags(options))
    closing.push(() => node.stop())
    const { cert, key } = certificates.client
    const tls = `tls: { ca: ${certificates.foreign.ca}, cert: ${cert}, key: ${key} }`
    expect(await refusalOf(`{ cluster: ["127.0.0.1:${node.tlsPort}"], ${tls} }`)).toContain(
      said(node.tlsPort, 'SELF_SIGNED_CERT_IN_CHAIN: '),
    )
  })

  it('of several workers too', async () => {
    expect(await refusalOf(`"${at('gate:hidden-not')}"`, 2)).toContain(
      said(redis.port, 'WRONGPASS: '),
    )
  })
})

describe.concurrent('a password that is changed later', () => {
  it.each([1, 2])(
    'makes readiness red until it fits again, and is logged (workers: %i)',
    async (workers) => {
      const backend = await rawBackend()
      const user = `later${workers}`
      const admin = (...rules: string[]): string =>
        redis.cli('--no-auth-warning', '-a', 'other', 'ACL', 'SETUSER', user, ...rules)
      admin('on', '>hidden', '~*', '&*', '+@all')
      const url = `redis://${user}:hidden@127.0.0.1:${redis.port}`
      const gateway = await gatewayProcess(file(backend.url, `"${url}"`, workers))
      const ready = async () => {
        const response = await fetch(`${gateway.adminOrigin}/readyz`)
        return `${response.status} ${await response.text()}`
      }
      const server = `"server":"127.0.0.1:${redis.port}"`
      expect(await ready()).toMatch(/^200 /)
      expect(await ready()).toContain(server)
      // Until the workers know each other, and with them their shares.
      await sleep(4_000)
      admin('resetpass', '>hidden-not')
      redis.cli('--no-auth-warning', '-a', 'other', 'CLIENT', 'KILL', 'USER', user)
      await eventually('the refusal', async () => (await ready()).startsWith('503 '))
      expect(await ready()).toContain(`store.redis: 127.0.0.1:${redis.port}: WRONGPASS: `)
      // A refusal is an outage for requests.
      expect((await decided(() => gateway.call('tg_refused_key'))).status).toBe(200)
      const lost = gateway.logged('storeLost').at(-1)
      expect(lost).toMatchObject({ server: `127.0.0.1:${redis.port}`, cause: 'WRONGPASS' })
      admin('resetpass', '>hidden')
      await eventually('its end', async () => (await ready()).startsWith('200 '))
      await eventually('the line', () => gateway.logged('storeBack').length > 0)
      expect(gateway.logged('storeBack').at(-1)).toMatchObject({
        server: `127.0.0.1:${redis.port}`,
      })
      expect(await gateway.metric('tollgate_store_outages_total')).toBeGreaterThanOrEqual(workers)
      expect(gateway.stderr()).not.toContain('hidden')
    },
  )
})
