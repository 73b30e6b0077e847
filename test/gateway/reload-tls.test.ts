/** Certificates that are swapped while requests are served. */
import { readFileSync, writeFileSync } from 'node:fs'
import type { TLSSocket } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { keys } from '../support/gateway.ts'
import { startRawBackend } from '../support/raw-backend.ts'
import { openRawClient } from '../support/raw-client.ts'
import { makeCertificates } from '../support/redis-tls.ts'
import { openServing } from '../support/serving.ts'

const certificates = makeCertificates()
// Whose name it bears is of no concern here: it changes.
const tls = { ca: readFileSync(certificates.ca), checkServerIdentity: () => undefined }
const asked = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${keys.enterprise}\r\n\r\n`

const blocks = ({ cert, key }: { cert: string; key: string }, more = '') => ({
  server: `server: { listen: "127.0.0.1:0", tls: { cert: ${cert}, key: ${key}, ${more} } }`,
})

describe('certificates', () => {
  it('are swapped under load without a failed request or a closed connection, and bad ones are refused', async () => {
    const backend = await startRawBackend()
    const { server, misnamed } = certificates
    const gateway = await openServing([backend.url], blocks(server))
    const kept = await openRawClient(gateway.port, { tls })
    let answered = 0
    const ask = async () => {
      kept.send(asked)
      return (await kept.waitForResponses(++answered)).responses.at(-1)
    }
    const subjects = new Set<unknown>()
    for (let round = 0; round < 6; round++) {
      const running = ask()
      await gateway.take(blocks(round % 2 === 0 ? misnamed : server))
      await expect(gateway.prepare(blocks({ ...server, key: misnamed.key }))).rejects.toThrow(
        /^server\.tls\.key: \S+ cannot be used \(\w+\); give the PEM private key/,
      )
      const fresh = await openRawClient(gateway.port, { tls })
      fresh.send(asked)
      for (const answer of [await running, (await fresh.waitForResponses(1)).responses[0]]) {
        expect(answer?.status).toBe(200)
        expect(answer?.header('connection')).not.toBe('close')
      }
      const { socket } = fresh
      if ('getPeerCertificate' in socket)
        subjects.add((socket as TLSSocket).getPeerCertificate().subject.CN)
      fresh.destroy()
    }
    expect(subjects).toEqual(new Set(['misnamed', 'server']))
    // A changed authority: who came in under the old one has one more answer.
    const authority = `${certificates.ca}.changed`
    writeFileSync(authority, tls.ca)
    await gateway.take(blocks(server, `clientCa: ${authority}`))
    expect((await ask())?.header('connection')).toBe('close')
  })
})
