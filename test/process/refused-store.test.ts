/** Gateways that Redis refuses, or whose Redis is not what the configuration takes it for: waiting would not help, and each would count for itself. */
import { beforeAll, describe, expect, it } from 'vitest'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { freePort } from '../support/redis-server.ts'
import { startSentinelGroup } from '../support/redis-sentinel.ts'
import { makeCertificates, startTlsRedisServer, type TlsRedisServer } from '../support/redis-tls.ts'
import { flags } from '../support/redis-shared.ts'
import { acquainted, clientsBlock, configFile, decided, eventually } from './gateways.ts'
import { gatewayHere, gatewayProcess, linesOf, startRawBackend, run } from './gateways.ts'

/** By its plain port and by TLS. */
let redis: TlsRedisServer
const certificates = makeCertificates()
const rights = ['on', '>hidden', '~*', '&*', '+@all']
/** As who may do all. */
const cli = (...args: string[]) => redis.cli('--no-auth-warning', '-a', 'other', ...args)
beforeAll(async () => {
  redis = await startTlsRedisServer(certificates, certificates.server, '--databases', '4')
  redis.cli('ACL', 'SETUSER', 'default', 'resetpass', '>other')
  cli('ACL', 'SETUSER', 'gate', ...rights)
  cli('ACL', 'SETUSER', 'limited', ...rights, '-hset')
  cli('ACL', 'SETUSER', 'fixed', ...rights, '-select')
  cli('CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl')
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
  /** user: with its password, and the path of the URL behind an @. */
  const at = (user: string): string => {
    const [login = '', path = ''] = user.split('@')
    return `"redis://${login === '' ? '' : `${login}@`}127.0.0.1:${redis.port}${path}"`
  }
  const overTls = (tls: string) =>
    `{ url: "rediss://127.0.0.1:${redis.tlsPort}", username: gate, password: hidden, tls: { ${tls} } }`
  const { ca, client, foreign } = certificates
  const shown = `cert: ${client.cert}, key: ${client.key}`
  const said = (port: number, fault: string): string => `store.redis: 127.0.0.1:${port}: ${fault}`

  it.each([
    [
      'a wrong password',
      'gate:hidden-not',
      'WRONGPASS: it knows no such user, or another password; ',
    ],
    ['an unknown user', 'nobody:hidden', 'WRONGPASS: it knows no such user'],
    ['no password', '', 'NOAUTH: it asks for a password; give one'],
    ['a right that is missing', 'limited:hidden', 'NOPERM: its user lacks a right'],
    [
      'a database that it has not',
      'gate:hidden@/9',
      'NO_DATABASE: it has no database of this number; ',
    ],
    [
      'a database that the user may not choose',
      'fixed:hidden@/2',
      'NOPERM: its user lacks a right',
    ],
  ])('for %s', async (_, user, fault) => {
    expect(await refusalOf(at(user))).toContain(said(redis.port, fault))
  })

  it.each([
    [
      'of another authority',
      `ca: ${foreign.ca}, ${shown}`,
      'SELF_SIGNED_CERT_IN_CHAIN: no trusted authority has signed its certificate; ',
    ],
    [
      'for another name',
      `ca: ${ca}, serverName: other.internal, ${shown}`,
      'ERR_TLS_CERT_ALTNAME_INVALID: its certificate is for another name; ',
    ],
    ['of ours that is not taken', `ca: ${ca}`, /ERR_SSL_\w+: it refuses the TLS connection; /],
  ])('for a certificate %s', async (_, tls, fault) => {
    const refusal = await refusalOf(overTls(tls))
    expect(refusal).toContain(said(redis.tlsPort, ''))
    expect(refusal).toMatch(fault)
  })

  it('for TLS where there is none, and the other way round, and with all that is asked for it is none', async () => {
    expect(await refusalOf(`"rediss://127.0.0.1:${redis.port}"`)).toContain(
      said(redis.port, 'NO_TLS: it does not speak TLS; '),
    )
    expect(await refusalOf(`"redis://127.0.0.1:${redis.tlsPort}"`)).toContain(
      said(redis.tlsPort, 'TLS_ONLY: it speaks TLS; '),
    )
    const whole = overTls(`ca: ${ca}, ${shown}`)
    await gatewayHere(file('http://127.0.0.1:1', whole))
  })

  it('for sentinels that know no such master, or whose master has another password', async () => {
    const { addresses, name, master } = await startSentinelGroup()
    const sentinels = addresses.join(', ')
    expect(await refusalOf(`{ sentinels: [${sentinels}], name: unheard }`)).toContain(
      `store.redis: master unheard of the sentinels ${sentinels}: NO_MASTER: no master of this name is known; `,
    )
    master.cli('ACL', 'SETUSER', 'default', 'resetpass', '>other')
    const login = 'username: default, password: hidden'
    expect(await refusalOf(`{ sentinels: [${sentinels}], name: ${name}, ${login} }`)).toContain(
      `master ${name} of the sentinels ${sentinels}: WRONGPASS: `,
    )
  })

  it('for a cluster with another password, or with a certificate that is not trusted', async () => {
    const { nodes } = await startRedisCluster([])
    const login = 'username: gate, password: hidden'
    expect(await refusalOf(`{ cluster: [${nodes.join(', ')}], ${login} }`)).toMatch(
      /^store\.redis: .*127\.0\.0\.1:\d+.*: WRONGPASS: /,
    )
    const ofCluster = {
      'cluster-enabled': 'yes',
      'cluster-port': await freePort(),
      'tls-cluster': 'yes',
    }
    const { server } = certificates
    const { tlsPort } = await startTlsRedisServer(certificates, server, ...flags(ofCluster))
    const tls = `tls: { ca: ${foreign.ca}, ${shown} }`
    expect(await refusalOf(`{ cluster: ["127.0.0.1:${tlsPort}"], ${tls} }`)).toContain(
      said(tlsPort, 'SELF_SIGNED_CERT_IN_CHAIN: '),
    )
  })

  it('as the last line and exit code 1 of the process, with workers too', async () => {
    const path = file('http://127.0.0.1:1', at('gate:hidden-not'), 2)
    const { code, stdout, stderr } = await run('start', '--config', path)
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).not.toContain('hidden')
    const failed = linesOf(stderr).find((line) => line['event'] === 'startFailed')
    expect(failed?.['message']).toContain(said(redis.port, 'WRONGPASS: '))
  })
})

it.each([1, 2])(
  'a password that is changed later makes readiness red until it fits again, and is logged; that counts may be lost is a warning (workers: %i)',
  async (workers) => {
    const backend = await startRawBackend()
    const user = `later${workers}`
    cli('ACL', 'SETUSER', user, ...rights)
    const url = `"redis://${user}:hidden@127.0.0.1:${redis.port}", prefix: ${user}`
    const path = file(backend.url, url, workers)
    const gateway = await (workers === 1 ? gatewayHere : gatewayProcess)(path)
    const { ready } = gateway
    const server = `127.0.0.1:${redis.port}`
    const warned = /maxmemory-policy is volatile-ttl.*; .*kept over a restart/s
    await eventually('the warning', async () => warned.test(await ready()))
    expect(await ready()).toMatch(new RegExp(`^200 .*"available".*"server":"${server}"`, 's'))
    // A supervisor has a connection of its own beside those of its workers.
    const connections = workers === 1 ? 1 : workers + 1
    await eventually('a line of each', () => gateway.logged('storeWarning').length >= connections)
    expect(gateway.logged('storeWarning')).toHaveLength(connections)
    // Until the workers know each other, and with them their shares.
    await acquainted({ cli, prefix: user }, workers)
    cli('ACL', 'SETUSER', user, 'resetpass', '>hidden-not')
    cli('CLIENT', 'KILL', 'USER', user)
    await eventually('the refusal', async () => (await ready()).startsWith('503 '))
    expect(await ready()).toContain(`store.redis: ${server}: WRONGPASS: `)
    // A refusal is an outage for requests.
    expect((await decided(() => gateway.call('tg_refused_key'))).status).toBe(200)
    const refused = expect.objectContaining({ server, cause: 'WRONGPASS' }) as object
    expect(gateway.logged('storeLost')).toContainEqual(refused)
    cli('ACL', 'SETUSER', user, 'resetpass', '>hidden')
    await eventually('its end', async () => (await ready()).startsWith('200 '))
    await eventually('the line', () => gateway.logged('storeBack').length > 0)
    expect(gateway.logged('storeBack').at(-1)).toMatchObject({ server })
    expect(await gateway.metric('tollgate_store_outages_total')).toBeGreaterThanOrEqual(workers)
    expect(gateway.stderr()).not.toContain('hidden')
  },
)

it.each([
  ['a server', '"redis://reddis.invalid:6379"', 'ENOTFOUND'],
  ['a cluster', '{ cluster: ["reddis.invalid:6379"] }', '.+'],
  ['sentinels', '{ sentinels: ["reddis.invalid:6379"], name: main }', '.+'],
])(
  '%s whose name leads nowhere is named in log and readiness from the start',
  async (_, servers, cause) => {
    const gateway = await gatewayHere(file('http://127.0.0.1:1', servers), { waitForStore: false })
    await eventually('the line', () => gateway.logged('storeWarning').length === 1)
    const said = 'no such host: reddis.invalid:6379; correct it, or'
    expect(gateway.logged('storeWarning')[0]?.['warning']).toContain(said)
    const page = await gateway.ready()
    expect(page).toContain(said)
    expect(page).toMatch(new RegExp(`"away \\(${cause}\\); onOutage is local"`))
    const shown = await (await fetch(`${gateway.adminOrigin}/api/store`)).json()
    expect(shown).toMatchObject({ state: 'away', cause: expect.stringMatching(`^${cause}$`) })
  },
)
