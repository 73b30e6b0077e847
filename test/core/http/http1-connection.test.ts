/** The connection alone, on a socket of its own; how clients feel it is in test/wire. */
import { connect, createServer, type Socket } from 'node:net'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { ClientConnection } from '../../../src/core/http/connections.ts'
import { Http1Connection } from '../../../src/core/http/http1-connection.ts'
import type { OutgoingResponse } from '../../../src/core/http/messages.ts'
import type { ServerParts } from '../../../src/core/http/server-parts.ts'
import { Framing } from '../../../src/core/rules/framing.ts'
import { SharedTurn } from '../../../src/core/http/shared-turn.ts'
import { atEnd } from '../../support/ending.ts'
import { listening } from '../../support/listening.ts'

/** More than the kernel holds for a client that does not read. */
const MUCH_BYTES = 64 * 1024 * 1024

/** Sends the text to a connection that answers everything with much, and reads nothing. */
async function sendUnread(text: string) {
  const server = createServer({ allowHalfOpen: true })
  const client = connect(await listening(server), '127.0.0.1').pause()
  atEnd(() => client.destroy())
  const [socket] = (await once(server, 'connection')) as [Socket]
  const origin = { address: '', isNamed: true, proto: 'http' } as const
  const answered = Promise.withResolvers<undefined>()
  const take = (response: OutgoingResponse): void => {
    response.send(400, ['Content-Length', String(MUCH_BYTES)], Buffer.alloc(MUCH_BYTES))
    answered.resolve(undefined)
  }
  const parts = {
    connections: { turn: new SharedTurn() },
    events: {
      unreadable: (_: unknown, response: OutgoingResponse) => take(response),
      request: (_: unknown, response: OutgoingResponse) => {
        connection.frame(new Framing())
        take(response)
      },
    },
    config: { timeouts: { headersMs: 5_000 } },
    http1Limits: { maxHeadBytes: 4_096, inactivityMs: 60_000, keepAliveFields: '' },
  }
  const accepted = new ClientConnection(socket, origin, undefined)
  const connection = new Http1Connection(socket, accepted, parts as unknown as ServerParts)
  const sentMs = performance.now()
  client.write(text)
  await answered.promise
  expect(socket.writableLength).toBeGreaterThan(0)
  /** Whether it is open after a look at that performance.now(). */
  const isOpen = (atMs: number): boolean => {
    connection.onLook(atMs)
    return !socket.destroyed
  }
  return { sentMs, isOpen }
}

it('a client that does not read the answer to something unreadable has a second', async () => {
  const { sentMs, isOpen } = await sendUnread('no request\r\n\r\n')
  expect(isOpen(sentMs + 999)).toBe(true)
  expect(isOpen(performance.now() + 1_001)).toBe(false)
})

it('one that does not read the answer to its request has the time of the inactivity', async () => {
  const { sentMs, isOpen } = await sendUnread('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  expect(isOpen(sentMs + 50_000)).toBe(true)
  expect(isOpen(sentMs + 120_000)).toBe(false)
})
