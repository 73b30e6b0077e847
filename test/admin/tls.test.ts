/** The admin listener over TLS: certificates of operators in place of a token, and what a reload changes of all that. */
import { once } from 'node:events'
import { copyFileSync, readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { configText, sha256, startTestGateway } from '../support/gateway.ts'
import { ownMs } from '../support/own-time.ts'
import { makeCertificates, type Certificate } from '../support/redis-tls.ts'

const certificates = makeCertificates()
const { server, misnamed, client, foreign } = certificates
/** What the gateway reads, so that its content can change under one name. */
const own = {
  cert: join(certificates.ca, '../own.pem'),
  key: join(certificates.ca, '../own.key'),
}
const use = ({ cert, key }: Certificate): void => {
  copyFileSync(cert, own.cert)
  copyFileSync(key, own.key)
}
const blocks = (more: string) => ({ admin: `admin: { listen: "127.0.0.1:0", ${more} }` })
const tls = (more = '') => `tls: { cert: ${own.cert}, key: ${own.key}${more} }`
const withOperators = tls(`, clientCa: ${certificates.ca}`)
const upstreams = ['http://127.0.0.1:9']

let admin = withOperators
use(server)
const gateway = await startTestGateway({
  upstreams,
  blocks: blocks(admin),
  reload: () => configText({ upstreams, blocks: blocks(admin) }),
})

interface Ask {
  readonly as?: Certificate
  readonly method?: string
  readonly token?: string
}

/** Status, body, and the name in the certificate of the listener. */
async function ask(path: string, { as, method = 'GET', token }: Ask = {}) {
  const sent = request({
    host: '127.0.0.1',
    port: gateway.adminPort,
    path,
    method,
    agent: false,
    ca: readFileSync(certificates.ca),
    checkServerIdentity: () => undefined,
    ...(as && { cert: readFileSync(as.cert), key: readFileSync(as.key) }),
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  })
  const [response] = (await once(sent.end(), 'response')) as [IncomingMessage]
  const { subject } = (response.socket as TLSSocket).getPeerCertificate()
  return { status: response.statusCode, body: await text(response), shown: subject.CN }
}

const status = async (...asked: Parameters<typeof ask>) => (await ask(...asked)).status
const reload = (as: Certificate) => ask('/api/reload', { as, method: 'POST' })

describe('admin.tls', () => {
  it('lets in who shows a certificate of its authorities, and names them in the log', async () => {
    for (const [path, as, expected] of [
      ['/api/config', undefined, 401],
      ['/api/config', foreign, 401],
      ['/api/config', certificates.expired, 401],
      ['/metrics', undefined, 401],
      ['/healthz', undefined, 200],
      ['/api/config', client, 200],
    ] as const)
      expect(await status(path, as && { as })).toBe(expected)
    expect((await reload(client)).status).toBe(200)
    expect(gateway.logLines().find(({ event }) => event === 'audit')).toMatchObject({
      who: 'certificate client',
      action: 'reload',
      status: 200,
    })
  })

  it('shows a new certificate after a reload, and goes on with the old one where the new one is no good', async () => {
    expect((await ask('/healthz')).shown).toBe('server')
    use(misnamed)
    expect((await reload(client)).status).toBe(200)
    expect((await ask('/healthz')).shown).toBe('misnamed')
    copyFileSync(server.key, own.key)
    const refused = await reload(client)
    expect(refused.status).toBe(422)
    expect(refused.body).toContain(`admin.tls.key: ${own.key} cannot be used`)
    expect((await ask('/healthz')).shown).toBe('misnamed')
    use(server)
  })

  it('takes a token or a certificate where both are configured', async () => {
    admin = `${withOperators}, tokenSha256: ${sha256('a-token')}`
    expect((await reload(client)).status).toBe(200)
    expect(await status('/api/config', { token: 'a-token' })).toBe(200)
    expect(await status('/api/config', { as: client })).toBe(200)
    expect(await status('/api/config', { as: foreign, token: 'another' })).toBe(401)
  })

  it('ends a handshake that does not begin, and what is no TLS', async () => {
    const socket = connect(gateway.adminPort, '127.0.0.1')
    socket.write('GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n')
    socket.resume()
    await once(socket, 'close')
    expect(await status('/healthz')).toBe(200)
  })

  it('believes no certificate of authorities that are no more, and goes without TLS where a reload says so', async () => {
    // Who listens is asked again, too, when the token or the authorities are others; not otherwise.
    let ended = 0
    const listen = () => void ask('/api/events', { as: client }).then(() => ended++)
    listen()
    expect((await reload(client)).status).toBe(200)
    expect(ended).toBe(0)
    admin = withOperators
    expect((await reload(client)).status).toBe(200)
    await expect.poll(() => ended).toBe(1)
    listen()
    expect(await status('/api/config', { as: client })).toBe(200)
    admin = tls(`, clientCa: ${foreign.ca}`)
    expect((await reload(client)).status).toBe(200)
    await expect.poll(() => ended).toBe(2)
    expect(await status('/api/config', { as: client })).toBe(401)
    expect(await status('/api/config', { as: foreign })).toBe(200)
    admin = 'hosts: []'
    expect((await reload(foreign)).status).toBe(200)
    const plain = await fetch(`http://127.0.0.1:${gateway.adminPort}/api/config`)
    expect(plain.status).toBe(200)
  })

  it('lets nobody hold up a stop who says nothing', async () => {
    const stopping = await startTestGateway({ upstreams, blocks: blocks(withOperators) })
    const socket = connect(stopping.adminPort, '127.0.0.1')
    socket.on('error', () => undefined)
    await once(socket, 'connect')
    const startedMs = ownMs()
    await stopping.stop()
    // A second; a handshake would have five.
    expect(ownMs() - startedMs).toBeLessThan(4_000)
  })
})
