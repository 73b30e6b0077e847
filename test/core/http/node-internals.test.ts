/**
 * What this Node.js does where it promises nothing, and what test/wire, which holds the rest of it, would tell of too late: each
 * case fails once another Node.js does it otherwise.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { connect, createServer as createNetServer, type AddressInfo } from 'node:net'
import { type Server as NetServer, type Socket } from 'node:net'
import { createServer as createHttp2Server, type ServerHttp2Stream } from 'node:http2'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { parseConfigText } from '../../../src/config/clients/load.ts'
import { ClientConnection, Connections } from '../../../src/core/http/connections.ts'
import { Http2Connection } from '../../../src/core/http/h2-connection.ts'
import { interpose, isHttp2Safe, isWriting, readOn } from '../../../src/core/http/node-internals.ts'
import { stopReading, takenBytes } from '../../../src/core/http/node-internals.ts'
import type { ServerParts } from '../../../src/core/http/server-parts.ts'
import { configText } from '../../support/gateway.ts'
import { frame, headers, openH2Peer, settings, types, uint32 } from '../../support/h2-frames.ts'
import { listening } from '../../support/listening.ts'

type Listener = (request: IncomingMessage, response: ServerResponse) => void

async function serve(listener: Listener, options = {}): Promise<Server> {
  const server = createServer(options, listener)
  await listening(server)
  return server
}

interface Client {
  readonly socket: Socket
  text(): string
  /** Error codes so far. */
  readonly errors: (string | undefined)[]
  ended(): boolean
}

async function open(server: NetServer): Promise<Client> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  let text = ''
  let ended = false
  const errors: (string | undefined)[] = []
  socket.setEncoding('latin1').on('data', (chunk: string) => (text += chunk))
  socket.on('error', (error: NodeJS.ErrnoException) => errors.push(error.code))
  socket.on('end', () => (ended = true))
  await once(socket, 'connect')
  return { socket, text: () => text, errors, ended: () => ended }
}

const request = (): string => 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'

describe('takenBytes', () => {
  it('counts what the kernel took, and nothing that waits for it', async () => {
    const all = 64 * 1024 * 1024
    let socket: Socket | undefined
    const server = await serve((request, response) => {
      socket = request.socket
      response.writeHead(200, { 'Content-Length': all })
      for (let written = 0; written < all; written += 65_536) response.write(Buffer.alloc(65_536))
      response.end()
    })
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1')
    client.pause()
    client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    const taken = (): number => (socket === undefined ? 0 : takenBytes(socket))
    const settled = async (): Promise<number> => {
      for (let before = -1; ;) {
        if (taken() === before && before > 0) return before
        before = taken()
        await sleep(200)
      }
    }
    const untilFull = await settled()
    expect(untilFull).toBeLessThan(all / 2)
    client.resume()
    let received = 0
    client.on('data', (bytes: Buffer) => (received += bytes.length))
    await expect.poll(() => received).toBeGreaterThan(all)
    expect(taken()).toBe(received)
    client.destroy()
  })
})

describe('interpose', () => {
  it('sees connections before any request, which are read as ever, with their time-outs', async () => {
    const times = { headersTimeout: 300, requestTimeout: 300, connectionsCheckingInterval: 50 }
    const server = createServer(times, (_, response) => response.end('ok'))
    let refuses = false
    const read = interpose(server, (socket) => {
      if (refuses) socket.destroy()
      else read(socket)
    })
    await listening(server)
    const slow = await open(server)
    slow.socket.write('GET / HTTP/1.1\r\n')
    // A busy machine may hold up any request for as long as that.
    const answered = async (): Promise<string> => {
      const good = await open(server)
      good.socket.write(request())
      await expect.poll(good.text).not.toBe('')
      return good.text()
    }
    await expect.poll(answered).toMatch(/ok$/)
    await expect.poll(slow.text).toMatch(/^HTTP\/1\.1 408 /)
    refuses = true
    const refused = await open(server)
    await expect.poll(refused.ended).toBe(true)
  })
})

/** Of HTTP/2, on sockets that are given. */
async function serveHttp2(onStream: (stream: ServerHttp2Stream) => void) {
  const sockets: Socket[] = []
  const http2 = createHttp2Server()
  http2.on('stream', onStream)
  const server = createNetServer((socket) => {
    sockets.push(socket)
    http2.emit('connection', socket)
  })
  const port = await listening(server)
  const open = async () => {
    const peer = await openH2Peer(port)
    await peer.waitFor(() => peer.find(types.settings) !== undefined, 'SETTINGS')
    return peer
  }
  return { sockets, open }
}

const MAX_WINDOW = 2 ** 31 - 1
const POST = [':method', 'POST', ':path', '/', ':scheme', 'http', ':authority', 'x']

describe('stopReading and readOn', () => {
  it('keep from http2 what has come already, in the same poll too, until it is to have it', async () => {
    const seen: ServerHttp2Stream[] = []
    const server = await serveHttp2((stream) => {
      seen.push(stream)
      for (const socket of server.sockets) stopReading(socket)
    })
    const peers = [await server.open(), await server.open()]
    for (const peer of peers) peer.send(headers(1, POST))
    await expect.poll(() => seen).toHaveLength(1)
    await sleep(50)
    expect(seen).toHaveLength(1)
    for (const socket of server.sockets) readOn(socket)
    await expect.poll(() => seen).toHaveLength(2)
  })
})

describe('isWriting', () => {
  it('says that a peer has yet to read what was written', async () => {
    const streams: ServerHttp2Stream[] = []
    const server = await serveHttp2((stream) => streams.push(stream))
    const peer = await server.open()
    peer.socket.pause()
    const windows = [
      settings([4, MAX_WINDOW]),
      frame(types.window, 0, 0, uint32(MAX_WINDOW - 65_535)),
    ]
    peer.send(...windows, headers(1, POST))
    await expect.poll(() => streams).toHaveLength(1)
    const [socket] = server.sockets as [Socket]
    const [stream] = streams as [ServerHttp2Stream]
    expect(isWriting(socket)).toBe(false)
    // Through http2: bytes that anybody else writes to a socket of http2 end the process once they are written.
    stream.respond()
    stream.write(Buffer.alloc(64 * 1024 * 1024))
    await expect.poll(() => isWriting(socket)).toBe(true)
  })
})

describe('endHandOver', () => {
  it('lets a session end before http2 has read what was put back on its socket', async () => {
    const limits = { connections: 9, connectionsPerAddress: 9, openFiles: undefined, isFar: false }
    const connections = new Connections(limits, () => {})
    let destroyed = 0
    connections.turn.enter = (begun) => {
      if (!(begun instanceof Http2Connection)) return
      begun.session.destroy()
      begun.socket.destroy()
      destroyed += 1
    }
    const config = parseConfigText(configText({ upstreams: ['http://x'] }), { file: '', env: {} })
    const parts = { connections, config: config.server } as unknown as ServerParts
    const origin = { address: '', isNamed: false, proto: 'http' } as const
    const server = createNetServer((socket) => {
      socket.once('data', (bytes: Buffer) => {
        socket.pause()
        socket.unshift(bytes)
        // oxlint-disable-next-line no-new -- it serves the socket
        new Http2Connection(socket, new ClientConnection(socket, origin, 'x'), parts)
      })
    })
    const port = await listening(server)
    const peer = await openH2Peer(port)
    await expect.poll(() => [destroyed, peer.closed]).toEqual([1, true])
  })
})

describe('isHttp2Safe', () => {
  it('says no of the oldest Node.js that we run on', () => {
    expect(isHttp2Safe).toBe(!process.version.startsWith('v22.'))
  })
})
