/** Gateways that Redis refuses, or whose Redis is not what the configuration takes it for: waiting would not help, and each would count for itself. */
import { beforeAll, describe, expect, it } from 'vitest'
import { atEnd } from '../support/ending.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { freePort, startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { startSentinelGroup } from '../support/redis-sentinel.ts'
import {
  makeCertificates,
  startTlsRedisServer,
  type Certificates,
  type TlsRedisServer,
} from '../support/redis-tls.ts'
import { flags } from '../support/redis-shared.ts'
import {
  acquainted,
  clientsBlock,
  configFile,
  decided,
  eventually,
  gatewayHere,
  gatewayProcess,
  linesOf,
  startRawBackend,
  run,
} from './gateways.ts'

let redis: RedisServer
let secure: TlsRedisServer
let misnamed: TlsRedisServer
let certificates: Certificates
beforeAll(async () => {
  certificates = makeCertificates()
  redis = await startRedisServer('--databases', '4')
  redis.cli('ACL', 'SETUSER', 'gate', 'on', '>hidden', '~*', '&*', '+@all')
  redis.cli('ACL', 'SETUSER', 'limited', 'on', '>hidden', '~*', '&*', '+@all', '-hset')
  redis.cli('ACL', 'SETUSER', 'fixed', 'on', '>hidden', '~*', '&*', '+@all', '-select')
  redis.cli('ACL', 'SETUSER', 'default', 'resetpass', '>other')
  secure = await startTlsRedisServer(certificates, certificates.server)
  misnamed = await startTlsRedisServer(certificates, certificates.misnamed)
})

const file = (upstream: string, store: string, workers = 1): string =>
  configFile(upstream, {
    store: `store: { redis: ${store}, onOutage: local }`,
    server: `server: { listen: "127.0.0.1:0", workers: ${workers} }`,
    clients: clientsBlock([{ id: 'acme', keys: ['tg_refused_key'], perMinute: 10 }]),
  })

/** What the start ends with. */
async function refusalOf(store: string): Promise<string> {
  const path = file('http://127.0.0.1:1', store)
  for (;;)
    try {
      // On a machine that is too busy to hear of it in time it starts without.
      await (await gatewayHere(path, { waitForStore: false })).stop()
    } catch (error) {
      const { message } = error as Error
      expect(message).not.toContain('hidden')
      return message
    }
}

describe.concurrent('a start ends with server, fault and remedy', () => {
  const at = (user: string, path = ''): string =>
    `"redis://${user}@127.0.0.1:${redis.port}${path}"`.replace('//@', '//')
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
    expect(await refusalOf(at(user, path))).toContain(said(redis.port, fault))
  })

  it('for a certificate of another authority, or for another name, and for one of ours that is not taken', async () => {
    const { ca, foreign } = certificates
    const { tlsPort } = secure
    const unsigned = 'SELF_SIGNED_CERT_IN_CHAIN: no trusted authority has signed its certificate; '
    expect(await refusalOf(overTls(tlsPort, foreign.ca))).toContain(said(tlsPort, unsigned))
    const misdirected = 'ERR_TLS_CERT_ALTNAME_INVALID: its certificate is for another name; '
    expect(await refusalOf(overTls(misnamed.tlsPort, ca))).toContain(
      said(misnamed.tlsPort, misdirected),
    )
    const unproven = `{ url: "rediss://127.0.0.1:${tlsPort}", tls: { ca: ${ca} } }`
    expect(await refusalOf(unproven)).toMatch(
      new RegExp(`^${said(tlsPort, 'ERR_SSL_')}\\w+: it refuses the TLS connection; `),
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
    atEnd(() => group.stop())
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
    atEnd(() => cluster.stop())
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
    atEnd(() => node.stop())
    const { cert, key } = certificates.client
    const tls = `tls: { ca: ${certificates.foreign.ca}, cert: ${cert}, key: ${key} }`
    expect(await refusalOf(`{ cluster: ["127.0.0.1:${node.tlsPort}"], ${tls} }`)).toContain(
      said(node.tlsPort, 'SELF_SIGNED_CERT_IN_CHAIN: '),
    )
  })

  it.each([1, 2])(
    'as the last line and exit code 1 of the process (workers: %i)',
    async (workers) => {
      const path = file('http://127.0.0.1:1', at('gate:hidden-not'), workers)
      const { code, stdout, stderr } = await run('start', '--config', path)
      expect([code, stdout]).toEqual([1, ''])
      expect(stderr).not.toContain('hidden')
      const failed = linesOf(stderr).find((line) => line['event'] === 'startFailed')
      expect(failed?.['message']).toContain(said(redis.port, 'WRONGPASS: '))
    },
  )
})

describe.concurrent('a password that is changed later', () => {
  it.each([1, 2])(
    'makes readiness red until it fits again, and is logged (workers: %i)',
    async (workers) => {
      const backend = await startRawBackend()
      const user = `later${workers}`
      const cli = (...args: string[]) => redis.cli('--no-auth-warning', '-a', 'other', ...args)
      const admin = (...rules: string[]): string => cli('ACL', 'SETUSER', user, ...rules)
      admin('on', '>hidden', '~*', '&*', '+@all')
      const url = `"redis://${user}:hidden@127.0.0.1:${redis.port}", prefix: ${user}`
      const path = file(backend.url, url, workers)
      const gateway = await (workers === 1 ? gatewayHere(path) : gatewayProcess(path))
      const ready = async () => {
        const response = await fetch(`${gateway.adminOrigin}/readyz`)
        return `${response.status} ${await response.text()}`
      }
      const server = `127.0.0.1:${redis.port}`
      expect(await ready()).toMatch(new RegExp(`^200 .*"server":"${server}"`, 's'))
      // Until the workers know each other, and with them their shares.
      await acquainted({ cli, prefix: user }, workers)
      admin('resetpass', '>hidden-not')
      cli('CLIENT', 'KILL', 'USER', user)
      await eventually('the refusal', async () => (await ready()).startsWith('503 '))
      expect(await ready()).toContain(`store.redis: ${server}: WRONGPASS: `)
      // A refusal is an outage for requests.
      expect((await decided(() => gateway.call('tg_refused_key'))).status).toBe(200)
      expect(gateway.logged('storeLost').at(-1)).toMatchObject({ server, cause: 'WRONGPASS' })
      admin('resetpass', '>hidden')
      await eventually('its end', async () => (await ready()).startsWith('200 '))
      await eventually('the line', () => gateway.logged('storeBack').length > 0)
      expect(gateway.logged('storeBack').at(-1)).toMatchObject({ server })
      expect(await gateway.metric('tollgate_store_outages_total')).toBeGreaterThanOrEqual(workers)
      expect(gateway.stderr()).not.toContain('hidden')
    },
  )
})
