/** Backends with TLS: who is believed, what is shown to them, and how a fault is told. */
import { once } from 'node:events'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createServer, type TlsOptions, type TLSSocket } from 'node:tls'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { readTlsFiles } from '../../src/gateway/tls-files.ts'
import { answer } from '../support/raw-backend.ts'
import type { Certificate, Certificates } from '../support/redis-tls.ts'
import { certificates as shared } from '../wire/wire.ts'
import type { Stage } from './forwarder.ts'

let certificates: Certificates
const stops: (() => Promise<void>)[] = []

/** Answers every request with the name that it was asked for in the handshake. */
async function startTlsBackend({ cert, key }: Certificate, options: TlsOptions = {}) {
  const sockets: TLSSocket[] = []
  const files = { cert: readFileSync(cert), key: readFileSync(key) }
  const server = createServer({ ...files, ...options }, (socket) => {
    sockets.push(socket)
    socket.on('error', () => {})
    socket.on('data', () => socket.write(answer(200, String(socket.servername))))
  })
  server.on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  stops.push(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  return { port: (server.address() as AddressInfo).port, sockets }
}

/** In the working folder of the certificates. */
function selfSigned(): Certificate {
  const path = (file: string): string => join(certificates.ca, '..', file)
  const files = { cert: path('self.pem'), key: path('self.key') }
  const made = [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-subj',
    '/CN=self',
    '-days',
    '2',
  ]
  const names = ['-addext', 'subjectAltName=IP:127.0.0.1']
  const where = ['-keyout', files.key, '-out', files.cert]
  execFileSync('openssl', ['req', '-x509', ...made, ...names, ...where], { stdio: 'ignore' })
  return files
}

export function describeTls({ engine, backend: startBackend, front: startFront }: Stage): void {
  describe('a backend with TLS', () => {
    beforeAll(() => void (certificates = shared()))
    afterEach(async () => {
      for (const stop of stops.splice(0)) await stop()
    })

    const trusting = (own?: Certificate, serverName?: string) =>
      readTlsFiles('upstream.tls', {
        caFile: certificates.ca,
        certFile: own?.cert,
        keyFile: own?.key,
        serverName,
      })
    const asking = (): TlsOptions => ({ requestCert: true, ca: readFileSync(certificates.ca) })

    it('is served with the right authority and our certificate, over one connection', async () => {
      const { port, sockets } = await startTlsBackend(certificates.server, asking())
      const tls = trusting(certificates.client)
      const front = await startFront([`https://127.0.0.1:${port}`], { tls })
      for (let count = 0; count < 3; count++) {
        // An address is no name to ask for, and the client's Host is not the backend's name.
        expect(await front.get('/')).toMatchObject({ status: 200, body: 'false' })
      }
      expect(sockets.map((socket) => socket.authorized)).toEqual([true])
    })

    it('is asked for by the name of the configuration, which its certificate must bear', async () => {
      const { port } = await startTlsBackend(certificates.misnamed)
      const tls = trusting(undefined, 'other.internal')
      const front = await startFront([`https://127.0.0.1:${port}`], { tls })
      expect(await front.get('/')).toMatchObject({ status: 200, body: 'other.internal' })
    })

    it.each<[string, () => Certificate, RegExp]>([
      ['expired', () => certificates.expired, /^its certificate has expired; CERT_HAS_EXPIRED/],
      ['self-signed', selfSigned, /^its certificate is self-signed .*; DEPTH_ZERO_SELF_SIGNED/],
      ['of another authority', () => certificates.foreign, /^its certificate is of no authority/],
      ['for another name', () => certificates.misnamed, /^its certificate is for another name/],
    ])(
      'whose certificate is %s is unreachable, whatever the environment says',
      async (_, certificate, cause) => {
        const { port } = await startTlsBackend(certificate())
        const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED']
        process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
        try {
          const front = await startFront([`https://127.0.0.1:${port}`], { tls: trusting() })
          const outcome = await front.get('/')
          expect(outcome.calls).toEqual(['fail'])
          expect(outcome.failure).toMatchObject({
            kind: 'unreachable',
            cause: expect.stringMatching(cause) as string,
          })
        } finally {
          if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
          else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = before
        }
      },
    )

    it.each([
      ['asks for a certificate of ours', 'TLSv1.3'],
      ['refuses the handshake; it may ask for a certificate of ours', 'TLSv1.2'],
    ] as const)('that %s (%s) is unreachable, and says why', async (cause, maxVersion) => {
      const { port } = await startTlsBackend(certificates.server, { ...asking(), maxVersion })
      const front = await startFront([`https://127.0.0.1:${port}`], { tls: trusting() })
      const outcome = await front.get('/')
      expect(outcome.calls).toEqual(['fail'])
      if (maxVersion === 'TLSv1.3' && engine.lateAlert === 'missed') return
      expect(outcome.failure).toMatchObject({
        kind: 'unreachable',
        cause: expect.stringContaining(`it ${cause}`) as string,
      })
    })

    it('that speaks no TLS is unreachable', async () => {
      const plain = await startBackend({
        onConnection: ({ socket }) => socket.write('HTTP/1.1 400 Bad Request\r\n\r\n'),
      })
      const front = await startFront([`https://127.0.0.1:${plain.port}`], { tls: trusting() })
      const outcome = await front.get('/')
      expect(outcome.failure).toMatchObject({
        kind: 'unreachable',
        cause: expect.stringMatching(/^it speaks no TLS .*; /) as string,
      })
    })
  })
}
