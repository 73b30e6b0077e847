/** Backends with TLS: who is believed, what is shown to them, and how a fault is told. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { createServer, type TlsOptions, type TLSSocket } from 'node:tls'
import { afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { readTlsFiles } from '../../src/gateway/tls-files.ts'
import { answer } from '../support/raw-backend.ts'
import { makeCertificates, type Certificate, type Certificates } from '../support/redis-tls.ts'
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

export function describeTls({ backend: startBackend, front: startFront }: Stage): void {
  describe('a backend with TLS', () => {
    beforeAll(() => void (certificates = makeCertificates()))
    afterEach(async () => {
      for (const stop of stops.splice(0)) await stop()
    })

    const trusting = (own?: Certificate) =>
      readTlsFiles('upstream.tls', {
        caFile: certificates.ca,
        certFile: own?.cert,
        keyFile: own?.key,
        serverName: undefined,
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

    // Which faults it finds in a certificate is in test/gateway/backend-tls.test.ts.
    it('whose certificate has expired is unreachable, whatever the environment says', async () => {
      const { port } = await startTlsBackend(certificates.expired)
      vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0')
      const front = await startFront([`https://127.0.0.1:${port}`], { tls: trusting() })
      const outcome = await front.get('/')
      vi.unstubAllEnvs()
      expect(outcome.calls).toEqual(['fail'])
      const cause = expect.stringMatching(
        /^its certificate has expired; CERT_HAS_EXPIRED/,
      ) as string
      expect(outcome.failure).toMatchObject({ kind: 'unreachable', cause })
    })

    it.each([
      ['asks for a certificate of ours', 'TLSv1.3'],
      ['refuses the handshake; it may ask for a certificate of ours', 'TLSv1.2'],
    ] as const)('that %s (%s) is unreachable, and says why', async (cause, maxVersion) => {
      const { port } = await startTlsBackend(certificates.server, { ...asking(), maxVersion })
      const front = await startFront([`https://127.0.0.1:${port}`], { tls: trusting() })
      const outcome = await front.get('/')
      expect(outcome.calls).toEqual(['fail'])
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
      const cause = expect.stringMatching(/^it speaks no TLS .*; /) as string
      expect(outcome.failure).toMatchObject({ kind: 'unreachable', cause })
    })
  })
}
