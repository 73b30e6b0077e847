/** Another configuration for a front door that is open: requests that come then, and those that are under way, over certificates that are swapped. */
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { TLSSocket } from 'node:tls'
import { WebSocket, WebSocketServer } from 'ws'
import { describe, expect, it } from 'vitest'
import { keys, minuteWithAtLeast, sha256 } from '../../support/gateway.ts'
import { listening } from '../../support/listening.ts'
import { answer, startRawBackend, until } from '../../support/raw-backend.ts'
import { openRawClient } from '../../support/raw-client.ts'
import { makeCertificates } from '../../support/redis-tls.ts'
import { openServing } from '../../support/serving.ts'

/** What its sender can tell answers by. */
const told = async (response: Response) => ({
  ...((await response.json()) as object),
  requestId: undefined,
  headers: [...response.headers.keys()],
})

describe('what serves requests, when it is given another configuration,', () => {
  it('serves the next request under it, and finishes the one under way under the old', async () => {
    const held = Promise.withResolvers<void>()
    const backend = await startRawBackend({
      respond: async ({ target }) => {
        if (target === '/v1/pets') await held.promise
        return answer(200, 'ok')
      },
    })
    const door = await openServing([backend.url])
    await minuteWithAtLeast()
    const underWay = door.get('/v1/pets', keys.free)
    await until(() => backend.requests.length === 1, 'the request that is held')
    await door.take({
      plans: 'plans: { free: { perMinute: 7, perDay: 70 } }',
      clients: `clients: [{ id: free-client, plan: free, keys: [{ id: new-1, sha256: ${sha256('new-key')} }] }]`,
      routes: 'routes: [{ name: allPets, match: GET /pets, stability: beta }]',
      unmatched: 'unmatched: reject',
    })
    const next = await door.get('/v1/pets/1', 'new-key')
    expect([next.status, next.headers.get('x-ratelimit-limit')]).toEqual([404, '7'])
    await next.arrayBuffer()
    const revoked = await door.get('/v1/pets', keys.free)
    expect([revoked.status, revoked.headers.get('x-api-stability')]).toEqual([401, 'beta'])
    const unknown = await door.get('/v1/pets', 'never-here')
    expect(await told(unknown)).toEqual(await told(revoked))
    held.resolve()
    const old = await underWay
    expect([old.status, await old.text()]).toEqual([200, 'ok'])
    expect(old.headers.get('x-ratelimit-limit')).toBe('60')
    expect(old.headers.get('x-api-stability')).toBeNull()
    await expect
      .poll(() => door.lines().filter(({ event }) => event === 'access'))
      .toMatchObject([
        { status: 404, client: 'free-client', key: 'new-1' },
        { status: 401, route: 'allPets', cause: 'revoked' },
        { status: 401, route: 'allPets' },
        { status: 200, key: 'free-1', route: 'listPets', minuteLeft: 59 },
      ])
  })

  it('ends the tunnels of keys that it does not have, or that expire under it, and no others', async () => {
    const [server, sockets] = [createServer(), new WebSocketServer({ noServer: true })]
    server.on('upgrade', (...asked) => sockets.handleUpgrade(...asked, () => undefined))
    const door = await openServing([`http://127.0.0.1:${await listening(server)}`])
    const ends: string[] = []
    for (const name of ['free', 'pro', 'business', 'enterprise'] as const) {
      const authorization = `Bearer ${keys[name]}`
      const socket = new WebSocket(`ws://127.0.0.1:${door.port}/v1/live`, {
        headers: { authorization },
      })
      socket.on('close', (code) => ends.push(`${name} ${code}`))
      await once(socket, 'open')
    }
    await door.take({
      clients: `clients:
  - { id: pro-client, plan: pro, keys: [{ id: pro-1, sha256: ${sha256(keys.pro)} }] }
  - { id: enterprise-client, plan: enterprise, limits: { perMinute: 9, perDay: 9 }, keys: [{ id: enterprise-1, sha256: ${sha256('new')} }] }
  - { id: business-client, plan: business, keys: [{ id: business-1, sha256: ${sha256(keys.business)}, expires: 2020-01-01 }] }`,
    })
    await until(() => ends.length === 3, 'the ends')
    expect(ends.toSorted()).toEqual(['business 1008', 'enterprise 1008', 'free 1008'])
    const told = () => door.lines().filter(({ tunnelEnd }) => tunnelEnd !== undefined)
    await expect
      .poll(() =>
        told()
          .map(({ key, tunnelEnd }) => `${String(key)} ${String(tunnelEnd)}`)
          .toSorted(),
      )
      .toEqual(['business-1 expired', 'enterprise-1 revoked', 'free-1 revoked'])
  })
})

const certificates = makeCertificates()
// Whose name it bears is of no concern here: it changes.
const tls = { ca: readFileSync(certificates.ca), checkServerIdentity: () => undefined }
const asked = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${keys.enterprise}\r\n\r\n`

const blocks = ({ cert, key }: { cert: string; key: string }, more = '') => ({
  server: `server: { listen: "127.0.0.1:0", tls: { cert: ${cert}, key: ${key}, ${more} } }`,
})

it('certificates are swapped under load without a failed request or a closed connection, and bad ones are refused', async () => {
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
