/** The connection alone, on a real socket, and what a turn of it leaves to the next; how clients feel it is in test/wire. */
import { once } from 'node:events'
import { createServer, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { expect, it, onTestFinished } from 'vitest'
import { ClientConnection } from '../../../src/core/http/connections.ts'
import { Http2Connection } from '../../../src/core/http/h2-connection.ts'
import type { StreamRequest, StreamResponse } from '../../../src/core/http/h2-stream.ts'
import type { ServerParts } from '../../../src/core/http/server-parts.ts'
import { Share, SharedTurn } from '../../../src/core/http/shared-turn.ts'
import { END_HEADERS, frame, headers, openH2Peer, PREFACE } from '../../support/h2-frames.ts'
import { settings } from '../../support/h2-frames.ts'
import { types, uint32 } from '../../support/h2-frames.ts'
import { listening } from '../../support/listening.ts'

const GET = [':method', 'GET', ':scheme', 'http', ':path', '/', ':authority', 'a.b']
const gets = (count: number): Buffer[] =>
  Array.from({ length: count }, (_, at) => headers(2 * at + 1, GET))
const reset = (code: number): Buffer => frame(types.rst, 0, 1, uint32(code))

type OnRequest = (request: StreamRequest, response: StreamResponse) => void

/** first: comes before the connection begins, and is read in the same turn. */
async function accept(onRequest?: OnRequest, first: readonly Buffer[] = []) {
  const server = createServer({ allowHalfOpen: true, noDelay: true })
  const accepted = once(server, 'connection') as Promise<[Socket]>
  const peer = await openH2Peer(await listening(server), { bare: true })
  onTestFinished(peer.destroy)
  const [socket] = await accepted
  const begins = Buffer.concat([PREFACE, settings(), ...first])
  peer.send(begins)
  await peer.waitFor(() => socket.readableLength === begins.length, 'the preface')
  // As PublicServer does.
  await turn()
  const begun: StreamRequest[] = []
  const abuses: string[] = []
  const parts = {
    connections: { turn: new SharedTurn() },
    penalties: { add: () => {} },
    events: {
      abuse: (kind: string) => abuses.push(kind),
      request: (request: StreamRequest, response: StreamResponse) => {
        begun.push(request)
        onRequest?.(request, response)
      },
    },
    config: {
      limits: { headerBytes: 16_384, urlBytes: 8_192, headerCount: 100 },
      timeouts: { headersMs: 5_000, idleMs: 5_000 },
    },
  } as unknown as ServerParts
  const origin = { address: '', isNamed: true, proto: 'http' } as const
  const client = new ClientConnection(socket, origin, 'a')
  const connection = new Http2Connection(socket, client, parts)
  client.protocol = connection
  return { peer, socket, client, connection, begun, abuses, sharedTurn: parts.connections.turn }
}

/** A connection that has begun: what is sent in one go is read in one go. */
async function open(onRequest?: OnRequest) {
  const opened = await accept(onRequest)
  await opened.peer.waitFor(() => opened.peer.find(types.settings) !== undefined, 'SETTINGS')
  return opened
}

it('a request that is taken back in the same read does not begin, and counts as broken off', async () => {
  const { peer, client, begun, abuses } = await open()
  peer.send(...gets(1), reset(8))
  await expect.poll(() => abuses).toEqual(['reset'])
  expect([begun.length, client.brokenOff]).toEqual([0, 1])
})

it('requests that end with their connection, for abuse, are no abuse of their own', async () => {
  const { peer, connection, begun, abuses } = await open(() => connection.endFor('held'))
  peer.send(...gets(3))
  await peer.waitFor(() => peer.closed, 'the end of the connection')
  expect([begun.length, abuses]).toEqual([1, ['held']])
})

it('requests that have not begun when their connection closes are dropped', async () => {
  const { socket, client, connection, begun, abuses } = await accept(undefined, gets(3))
  connection.session.once('stream', () => socket.destroy())
  await once(socket, 'close')
  for (let more = 0; more < 2; more++) await turn()
  expect([begun, abuses, client.brokenOff, client.protocol?.share.parsed]).toEqual([[], [], 0, 0])
})

it.each([
  ['16 of its own', 0, 20, 16],
  ['192 of all connections', 190, 4, 2],
])('reading stops in the middle of a turn at %s', async (_, others, count, at) => {
  const { peer, connection, sharedTurn, begun } = await open()
  const share = new Share()
  sharedTurn.parsed(share, others)
  const isReading: boolean[] = []
  connection.session.on('stream', () => isReading.push(connection.share.isReading))
  peer.send(...gets(count))
  await expect.poll(() => begun.length).toBe(count)
  expect(isReading).toEqual(Array.from({ length: count }, (__, before) => before < at - 1))
  sharedTurn.parsed(share, -others)
  // What waits no more is read on.
  peer.send(headers(2 * count + 1, GET))
  await expect.poll(() => begun.length).toBe(count + 1)
})

it('a connection is busy as long as a request of it waits to begin, and is not closed as idle', async () => {
  const looks: string[] = []
  const { peer, client, connection, begun } = await open(() => {
    looks.push(client.look())
    if (looks.length < 20) connection.onLook(performance.now() + 60_000)
  })
  peer.send(...gets(20))
  await expect.poll(() => begun.length).toBe(20)
  expect(looks).toEqual([...Array<string>(19).fill('busy'), 'idle'])
  expect(connection.session.closed).toBe(false)
})

it('answers of a turn are sent together, when all of its requests have begun', async () => {
  const sent: boolean[] = []
  const { peer, begun } = await open((_, response) => {
    response.send(200, [], Buffer.from('ok'))
    sent.push(...begun.map(({ body }) => body.headersSent))
  })
  peer.send(...gets(3))
  const answered = () => peer.frames.filter(({ type }) => type === types.data).map(String)
  await peer.waitFor(() => answered().length === 3, 'the answers')
  expect(sent).toEqual(Array(6).fill(false))
})

it('an answer that waits for its stage is not complete when its client resets the stream', async () => {
  const finished: boolean[] = []
  const { peer, begun } = await open(({ body }, response) => {
    body.once('data', () => response.send(200, [], Buffer.from('ok')))
    body.once('close', () => finished.push(response.writableFinished))
  })
  peer.send(headers(1, [':method', 'POST', ...GET.slice(2)], END_HEADERS))
  await peer.waitFor(() => begun.length === 1, 'the request')
  peer.send(frame(types.data, 0, 1, [1]), reset(0))
  await expect.poll(() => finished).toEqual([false])
})
