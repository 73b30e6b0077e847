/** Backends with TLS: who is believed, what is shown to them, and how a fault is told. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import * as tls from 'node:tls'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { readTlsFiles } from '../../src/server/gateway/tls-files.ts'
import { listening } from '../support/listening.ts'
import { answer, startRawBackend, until } from '../support/raw-backend.ts'
import { makeCertificates, type Certificate } from '../support/redis-tls.ts'
import type { Stage } from './forwarding.ts'

/** Answers with the name that it was asked for in the handshake, in more bytes than one TLS record takes. */
async function startTlsBackend({ cert, key }: Certificate, options: tls.TlsOptions = {}) {
  const sockets: tls.TLSSocket[] = []
  const own = {
    cert: readFileSync(cert),
    key: readFileSync(key),
    ALPNProtocols: ['h2', 'http/1.1'],
  }
  const server = tls.createServer({ ...own, ...options }, (socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    socket.on('data', () => socket.write(answer(200, String(socket.servername).padEnd(100_000))))
  })
  server.on('tlsClientError', () => {})
  return { url: `https://127.0.0.1:${await listening(server)}`, sockets, server }
}

export function describeTls({ front: startFront }: Stage): void {
  describe('a backend with TLS', () => {
    const certificates = makeCertificates()
    const trusting = (own?: Certificate) =>
      readTlsFiles('upstream.tls', {
        caFile: certificates.ca,
        certFile: own?.cert,
        keyFile: own?.key,
        serverName: undefined,
      })
    const asking = { requestCert: true, ca: readFileSync(certificates.ca) }

    it('is served with the right authority and our certificate, in HTTP/1.1 over a connection that is used again, paused or not', async () => {
      const { url, sockets } = await startTlsBackend(certificates.server, asking)
      const front = startFront([url], { tls: trusting(certificates.client), connections: 1 })
      for (const accepts of [true, false, true]) {
        const outcome = front.send('/')
        outcome.accepts = accepts
        await until(() => {
          outcome.handle?.resume()
          return outcome.settled
        })
        // An address is no name to ask for, and the client's Host is not the backend's name.
        expect(outcome.body).toBe('false'.padEnd(100_000))
      }
      const [first] = sockets
      // On a busy machine one may have been idle for longer than the backend keeps it.
      expect(sockets.length).toBeLessThan(3)
      expect(first?.authorized).toBe(true)
      expect(first?.alpnProtocol).not.toBe('h2')
      expect(first?.isSessionReused()).toBe(false)
      const last = sockets.at(-1)
      last?.end()
      await until(() => last?.destroyed === true, 'the end to be noticed')
      await front.get('/')
      expect(sockets.at(-1)).not.toBe(last)
      expect(sockets.at(-1)?.isSessionReused()).toBe(true)
    })

    it('counts with an answer that comes together with the end of its connection', async () => {
      const { url, server } = await startTlsBackend(certificates.server)
      server.removeAllListeners('secureConnection')
      server.on('secureConnection', (socket) => socket.on('data', () => socket.end(answer(200))))
      const front = startFront([url], { tls: trusting() })
      for (let round = 0; round < 5; round++)
        expect(await front.get('/', { method: 'POST' })).toMatchObject({ status: 200 })
    })

    it('that stalls at the handshake keeps the place of a connection no longer than its client waits', async () => {
      const { server } = await startTlsBackend(certificates.server)
      let connections = 0
      const stalling = createServer((socket) => {
        if (++connections > 1) server.emit('connection', socket)
      })
      const front = startFront([`https://127.0.0.1:${await listening(stalling)}`], {
        tls: trusting(),
        connections: 1,
        timeouts: { connectMs: 600_000 },
      })
      const gone = front.send('/gone')
      await until(() => connections === 1, 'the handshake that stalls')
      gone.handle?.abort()
      expect((await front.get('/next')).status).toBe(200)
    })

    it('is believed by the authorities of Node.js where no other is named', async () => {
      const trusted = tls.getCACertificates('default')
      onTestFinished(() => tls.setDefaultCACertificates(trusted))
      tls.setDefaultCACertificates([...trusted, readFileSync(certificates.ca, 'utf8')])
      const { url } = await startTlsBackend(certificates.server)
      expect((await startFront([url]).get('/')).status).toBe(200)
    })

    it.each([
      ['expired', /^its certificate has expired; CERT_HAS_EXPIRED/],
      ['misnamed', /^its certificate is for another name/],
      ['foreign', /^its certificate is of no authority that is trusted here/],
    ] as const)(
      'whose certificate is %s is unreachable, whatever the environment says',
      async (which, cause) => {
        const { url } = await startTlsBackend(certificates[which])
        vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
        const outcome = await startFront([url], { tls: trusting() }).get('/')
        vi.unstubAllEnvs()
        expect(outcome.calls).toEqual(['fail'])
        expect(outcome.failure?.kind).toBe('unreachable')
        expect(outcome.failure?.cause).toMatch(cause)
      },
    )

    it.each([
      ['asks for a certificate of ours', 'TLSv1.3'],
      ['refuses the handshake; it may ask for a certificate of ours', 'TLSv1.2'],
    ] as const)('that %s (%s) is unreachable, and says why', async (cause, maxVersion) => {
      const { url } = await startTlsBackend(certificates.server, { ...asking, maxVersion })
      const outcome = await startFront([url], { tls: trusting() }).get('/')
      expect(outcome.calls).toEqual(['fail'])
      expect(outcome.failure?.kind).toBe('unreachable')
      expect(outcome.failure?.cause).toContain(`it ${cause}`)
    })

    it('that speaks no TLS is unreachable', async () => {
      const { port } = await startRawBackend({
        onConnection: ({ socket }) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'),
      })
      const { failure } = await startFront([`https://127.0.0.1:${port}`], { tls: trusting() }).get(
        '/',
      )
      expect(failure?.kind).toBe('unreachable')
      expect(failure?.cause).toMatch(/^it speaks no TLS .*; /)
    })
  })
}
