/** `tollgate check --connect`, against servers that are well and servers that are not. */
import { createPrivateKey } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { generateKeyPair, exportJWK } from 'jose'
import { describe, expect, it } from 'vitest'
import { checkCommand } from '../../src/cli/check.ts'
import { listening } from '../support/listening.ts'
import { temporaryFile } from '../support/processes.ts'
import { freePort } from '../support/redis-server.ts'
import { makeCertificates, startTlsRedisServer, type Certificate } from '../support/redis-tls.ts'

const certificates = makeCertificates()
const redis = await startTlsRedisServer(certificates, certificates.server)
const { cert, key } = certificates.server
const backend = createTlsServer({ cert: readFileSync(cert), key: readFileSync(key) })
const keys = [await exportJWK((await generateKeyPair('ES256')).publicKey)]
const issuer = createServer((request, response) => {
  response.statusCode = request.url === '/keys' ? 200 : 404
  response.end(JSON.stringify({ keys }))
})
const [backendPort, issuerPort] = [await listening(backend), await listening(issuer)]
const closed = await freePort()

const tls = (ca: string, own?: Certificate) =>
  `{ ca: ${ca}${own === undefined ? '' : `, cert: ${own.cert}, key: ${own.key}`} }`

interface Parts {
  readonly own?: Certificate
  readonly upstream?: string
  readonly upstreamTls?: string
  readonly redisTls?: string
  readonly jwks?: string
}

async function check(parts: Parts, connect = true) {
  const { ca, client, server } = certificates
  const own = parts.own ?? server
  const file = temporaryFile(
    'gateway.yaml',
    `clients: [{ id: a, plan: free }]
server: { tls: { cert: ${own.cert}, key: ${own.key} } }
upstream: { urls: ['${parts.upstream ?? `https://127.0.0.1:${backendPort}`}'], tls: ${parts.upstreamTls ?? tls(ca)} }
store: { redis: { url: 'rediss://127.0.0.1:${redis.tlsPort}', tls: ${parts.redisTls ?? tls(ca, client)} } }
jwt: { issuer: a, audience: b, algorithms: [ES256], jwksUri: 'http://127.0.0.1:${issuerPort}${parts.jwks ?? '/keys'}' }
`,
  )
  const lines: string[] = []
  // The certificates of tests have two days left, which is a warning: see test/process/certificates.test.ts.
  const isOfTests = (line: string): boolean => line.includes(' names a certificate that ')
  const output = { env: {}, print: (line: string) => isOfTests(line) || lines.push(line) }
  const code = await checkCommand(output, { config: file, connect })
  const isOk = lines[0]?.includes(': ok, revision') === true
  return { code, isOk, lines: lines.slice(isOk ? 1 : 0) }
}

describe('tollgate check --connect', () => {
  it('says of each thing that it is well, and of certificates for how long', async () => {
    const { code, lines } = await check({})
    expect(lines).toEqual([
      expect.stringMatching(/^server\.tls\.cert \S+: ok, \d+ days left$/),
      expect.stringMatching(/^store\.redis\.tls\.ca \S+: ok, \d+ days left$/),
      expect.stringMatching(/^store\.redis\.tls\.cert \S+: ok, \d+ days left$/),
      expect.stringMatching(/^upstream\.tls\.ca \S+: ok, \d+ days left$/),
      `store.redis 127.0.0.1:${redis.tlsPort}: ok`,
      expect.stringMatching(/^store 127\.0\.0\.1:\d+: ok/),
      `upstream https://127.0.0.1:${backendPort}: ok`,
      `jwt http://127.0.0.1:${issuerPort}/keys: ok`,
    ])
    expect(code).toBe(0)
  })

  it.each<[string, () => Parts, RegExp[]]>([
    [
      'an own certificate that has ended',
      () => ({ own: certificates.expired }),
      [/^server\.tls\.cert \S+: ended at 20\S+; renew it/],
    ],
    [
      'a backend that is not there',
      () => ({ upstream: `http://127.0.0.1:${closed}` }),
      [/^upstream http:\S+: ECONNREFUSED; start it, or /],
    ],
    [
      'a backend that nobody vouches for',
      () => ({ upstreamTls: tls(certificates.foreign.ca) }),
      [/^upstream https:\S+: its certificate is of no authority .*; /],
    ],
    [
      'a server that wants a certificate',
      () => ({ redisTls: tls(certificates.ca) }),
      [/^store\.redis \S+: .*correct tls\.cert and tls\.key/, /^store \S+: /],
    ],
    ['no key set', () => ({ jwks: '/none' }), [/^jwt \S+: status 404; correct jwt\.jwksUri/]],
  ])('names %s, with a remedy and exit code 2', async (_, parts, faults) => {
    const { code, isOk, lines } = await check(parts())
    expect(isOk).toBe(true)
    const told = lines.filter((line) => !/: ok(,|$)/.test(line))
    expect(told).toEqual(faults.map((fault) => expect.stringMatching(fault) as string))
    expect(code).toBe(2)
  })
})

describe('tollgate check', () => {
  /** The key of the server, encrypted. */
  const encrypted = (): string => {
    const key = createPrivateKey(readFileSync(certificates.server.key))
    const how = { type: 'pkcs8', format: 'pem', cipher: 'aes-256-cbc', passphrase: 'a' } as const
    return temporaryFile('encrypted.key', key.export(how))
  }

  const withKey = (key: string): Parts => ({ own: { ...certificates.server, key } })
  it.each<[string, () => Parts, string[]]>([
    ['an encrypted key', () => withKey(encrypted()), ['server.tls.key']],
    [
      'files that are not PEM, each once',
      () => {
        const cert = temporaryFile('not.pem', 'not PEM')
        const bad = { cert, key: certificates.client.key }
        return { own: bad, upstreamTls: tls(cert), redisTls: tls(certificates.ca, bad) }
      },
      ['server.tls.cert', 'upstream.tls.ca', 'store.redis.tls.cert'],
    ],
  ])('of %s says what a start would', async (_, parts, keys) => {
    const { code, isOk, lines } = await check(parts(), false)
    expect(
      lines.map((line) => line.replace(/: \S+ cannot be used \(.+\); give the PEM .*/, '')),
    ).toEqual(keys)
    expect([code, isOk]).toEqual([2, false])
  })
})
