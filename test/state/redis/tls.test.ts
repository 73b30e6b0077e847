import { execFile } from 'node:child_process'
import { connect as connectTcp, createServer } from 'node:net'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import type { HostPort, RedisConfig, TlsFilesConfig } from '../../../src/config/config.ts'
import type { RedisStore } from '../../../src/state/redis/redis.ts'
import { readTlsFiles } from '../../../src/server/gateway/tls-files.ts'
import { hset, publish } from '../../support/redis-commands.ts'
import { listening } from '../../support/listening.ts'
import { redisAt } from '../../support/redis-servers.ts'
import { until } from '../../support/controlled-authority.ts'
import { startSentinel } from '../../support/redis-sentinel.ts'
import { freePort } from '../../support/redis-server.ts'
import { flags } from '../../support/redis-shared.ts'
import { makeCertificates, startTlsRedisServer, type Certificate } from '../../support/redis-tls.ts'

const certificates = makeCertificates()
const server = await startTlsRedisServer(certificates, certificates.server)

const none = { username: undefined, password: undefined }
const files = (
  ca: string | undefined,
  own: Certificate | undefined,
  serverName?: string,
): TlsFilesConfig => ({ caFile: ca, certFile: own?.cert, keyFile: own?.key, serverName })

const serverAt = (port: number, ...tls: Parameters<typeof files>): RedisConfig => ({
  kind: 'server',
  addresses: [{ host: '127.0.0.1', port }],
  db: 0,
  ...none,
  tls: files(...tls),
})

/** Connects and waits for the first state; the cause tells why, if it is not available. */
async function connect(servers: RedisConfig): Promise<{ store: RedisStore; cause: string }> {
  const told: { available: boolean; cause: string }[] = []
  const store = redisAt(servers, {
    tls: servers.tls && readTlsFiles('store.redis.tls', servers.tls),
    timeoutMs: 5_000,
    onState: (available, cause) => void told.push({ available, cause }),
  })
  await until(() => told.length > 0)
  return { store, cause: told[0]?.available === true ? '' : (told[0]?.cause ?? '') }
}

async function expectServed(store: RedisStore): Promise<void> {
  await until(() => store.available)
  await hset(store, 'hash', 'field', 'value')
  expect({ ...(await store.hgetall('hash')) }).toEqual({ field: 'value' })
  const heard: string[] = []
  store.subscribe('news', { message: (text) => heard.push(text) })
  await until(async () => {
    await publish(store, 'news', 'text').catch(() => undefined)
    return heard.length > 0
  })
}

describe('Redis behind TLS', () => {
  it('is served with the right authority and the certificate of the client', async () => {
    const { store } = await connect(serverAt(server.tlsPort, certificates.ca, certificates.client))
    await expectServed(store)
  })

  it('is not served when it is of an unknown authority, whatever the environment says', async () => {
    const environment = process.env['NODE_TLS_REJECT_UNAUTHORIZED']
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
    try {
      const { foreign, client } = certificates
      const { store, cause } = await connect(serverAt(server.tlsPort, foreign.ca, client))
      expect([store.available, cause]).toEqual([false, 'SELF_SIGNED_CERT_IN_CHAIN'])
      const { cause: standard } = await connect(serverAt(server.tlsPort, undefined, undefined))
      expect(standard).toBe('SELF_SIGNED_CERT_IN_CHAIN')
    } finally {
      if (environment === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
      else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = environment
    }
  })

  it('is not served without a certificate of its authority, which the server asks for', async () => {
    for (const own of [undefined, certificates.foreign]) {
      const { store, cause } = await connect(serverAt(server.tlsPort, certificates.ca, own))
      expect([store.available, cause]).toEqual([false, expect.stringMatching(/^ERR_SSL_|^ECONN/)])
    }
  })

  it('is held to the name given, where that is not the host', async () => {
    const { ca, client, misnamed } = certificates
    const other = await startTlsRedisServer(certificates, misnamed)
    const plain = await connect(serverAt(other.tlsPort, ca, client))
    expect(plain.cause).toBe('ERR_TLS_CERT_ALTNAME_INVALID')
    const wrong = await connect(serverAt(other.tlsPort, ca, client, 'redis.internal'))
    expect(wrong.cause).toBe('ERR_TLS_CERT_ALTNAME_INVALID')
    const named = await connect(serverAt(other.tlsPort, ca, client, 'other.internal'))
    await expectServed(named.store)
  })

  it('is served as a cluster', async () => {
    const { ca, client } = certificates
    const options = flags({
      'cluster-enabled': 'yes',
      'cluster-port': await freePort(),
      'tls-cluster': 'yes',
      // A node that has met no other does not know its own address.
      'cluster-announce-ip': '127.0.0.1',
    })
    const node = await startTlsRedisServer(certificates, certificates.server, ...options)
    node.cli('CLUSTER', 'ADDSLOTSRANGE', '0', '16383')
    const { store } = await connect({
      kind: 'cluster',
      addresses: [{ host: '127.0.0.1', port: node.tlsPort }],
      ...none,
      tls: files(ca, client, 'redis.internal'),
    })
    await expectServed(store)
  })

  it('is found through a sentinel behind TLS', async () => {
    const { ca, client, server: own } = certificates
    const tlsPort = await freePort()
    await startSentinel(
      `tls-port ${tlsPort}`,
      `tls-ca-cert-file ${ca}`,
      `tls-cert-file ${own.cert}`,
      `tls-key-file ${own.key}`,
      'tls-replication yes',
      `sentinel monitor quota 127.0.0.1 ${server.tlsPort} 1`,
    )
    const { store } = await connect({
      kind: 'sentinels',
      addresses: [{ host: '127.0.0.1', port: tlsPort }],
      name: 'quota',
      db: 0,
      ...none,
      sentinelUsername: undefined,
      sentinelPassword: undefined,
      tls: files(ca, client),
    })
    await expectServed(store)
  })
})

/** A link to a port that holds back all answers until the client has ended its side, and then delivers them as one piece. */
async function startHoldingLink(toPort: number) {
  let delivered = 0
  const link = createServer({ allowHalfOpen: true }, (near) => {
    const far = connectTcp({ host: '127.0.0.1', port: toPort, allowHalfOpen: true })
    for (const socket of [near, far]) socket.on('error', () => undefined)
    near.pipe(far)
    const held: Buffer[] = []
    far.on('data', (piece: Buffer) => held.push(piece))
    far.on('end', () => {
      delivered += held.length
      near.end(Buffer.concat(held))
    })
  })
  return { address: { host: '127.0.0.1', port: await listening(link) }, delivered: () => delivered }
}

describe('a handshake that is given up before a certificate is shown that is not trusted', () => {
  const kinds = {
    server: (address: HostPort) => ({ kind: 'server', addresses: [address], db: 0 }),
    cluster: (address: HostPort) => ({ kind: 'cluster', addresses: [address] }),
    sentinels: (address: HostPort) => ({ kind: 'sentinels', addresses: [address], name: 'quota' }),
  }

  it('ends no process: of a server, a cluster and sentinels', async () => {
    const links = await Promise.all(
      Object.values(kinds).map(async (kind) => ({
        kind,
        ...(await startHoldingLink(server.tlsPort)),
      })),
    )
    const { foreign, client } = certificates
    const tls = files(foreign.ca, client)
    const all = links.map(({ kind, address }) => ({ ...kind(address), tls }))
    const script = `
      import { setTimeout as sleep } from 'node:timers/promises'
      import { RedisStore } from '${new URL('../../../src/state/redis/redis.ts', import.meta.url).href}'
      import { readTlsFiles } from '${new URL('../../../src/server/gateway/tls-files.ts', import.meta.url).href}'
      const tls = readTlsFiles('store.redis.tls', ${JSON.stringify(tls)})
      for (let round = 0; round < 3; round++) {
        const stores = ${JSON.stringify(all)}.map((servers) => new RedisStore({ servers, tls, timeoutMs: 150 }))
        for (const store of stores) store.subscribe('news', { message() {} })
        // Longer than the library waits for a sentinel by itself.
        await sleep(700)
        for (const store of stores) await store.close()
      }
    `
    const run = promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script])
    expect(await run).toEqual({ stdout: '', stderr: '' })
    for (const { delivered } of links) expect(delivered()).toBeGreaterThan(0)
  })
})
