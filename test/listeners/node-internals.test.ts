/** What this Node.js does where it promises nothing: each case fails once another one does it otherwise. */
import { once } from 'node:events'
import { Agent, createServer, get, type IncomingMessage, type Server } from 'node:http'
import { type ServerResponse } from 'node:http'
import { connect, createServer as createNetServer, type AddressInfo } from 'node:net'
import { type Server as NetServer, type Socket } from 'node:net'
import { createServer as createHttp2Server, type ServerHttp2Stream } from 'node:http2'
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { bindSocket, endHandOver, endHasCome } from '../../src/listeners/node-internals.ts'
import { endWithSocket, feed, isHttp2Safe, isLast } from '../../src/listeners/node-internals.ts'
import { isWriting, keepEveryField, limitHeads } from '../../src/listeners/node-internals.ts'
import { lingerOnClose, makeLast, readOn } from '../../src/listeners/node-internals.ts'
import { responseOnSocket, restBetweenRequests } from '../../src/listeners/node-internals.ts'
import { serveUnbound, stopReading, takenBytes } from '../../src/listeners/node-internals.ts'
import { watchPieces, writeContinue } from '../../src/listeners/node-internals.ts'
import { END_HEADERS, END_STREAM, frame, headers } from '../support/h2-frames.ts'
import { openH2Peer, settings, types, uint32 } from '../support/h2-frames.ts'
import { guardParser, type Intake } from '../../src/listeners/parser-internals.ts'
import type { ParserError } from '../../src/listeners/inflow.ts'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections()
    server.close()
  }
})

/** On a free port. */
async function listen(server: NetServer): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}

type Listener = (request: IncomingMessage, response: ServerResponse) => void

async function serve(listener: Listener, options = {}): Promise<Server> {
  const server = createServer(options, listener)
  servers.push(server)
  await listen(server)
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

const request = (more = ''): string => `GET / HTTP/1.1\r\nHost: x\r\n${more}\r\n`

describe('makeLast and isLast', () => {
  it('end the connection behind the answer, which says so', async () => {
    const server = await serve((_, response) => {
      makeLast(response)
      response.end('ok')
    })
    const client = await open(server)
    client.socket.write(request())
    await expect.poll(client.ended).toBe(true)
    expect(client.text()).toMatch(/^Connection: close\r$/m)
  })

  it.each([
    [request(), false],
    [request('Connection: close\r\n'), true],
    ['GET / HTTP/1.0\r\nHost: x\r\n\r\n', true],
  ])('know of %j whether its answer is the last: %s', async (text, expected) => {
    const seen: boolean[] = []
    const server = await serve((_, response) => {
      seen.push(isLast(response))
      response.end()
    })
    const client = await open(server)
    client.socket.write(text)
    await expect.poll(() => seen).toEqual([expected])
  })
})

describe('writeContinue', () => {
  const expecting = request('Expect: 100-continue\r\nContent-Length: 2\r\n')
  async function answersTo(first: (response: ServerResponse) => void): Promise<string> {
    const server = await serve((_, response) => first(response))
    server.on('checkContinue', (_: IncomingMessage, response: ServerResponse) => {
      writeContinue(response)
      setTimeout(() => response.end('second'), 20)
    })
    const client = await open(server)
    client.socket.write(`${request()}${expecting}{}`)
    await expect.poll(client.text).toContain('second')
    return client.text().replace(/\r\n([A-Z][^]*?\r\n)?\r\n/g, '|')
  }

  it('waits until the earlier answer has gone out', async () => {
    const text = await answersTo((response) => {
      response.writeHead(200, ['Content-Length', '5']).flushHeaders()
      setTimeout(() => response.end('first'), 10)
    })
    expect(text).toBe('HTTP/1.1 200 OK|firstHTTP/1.1 100 Continue|HTTP/1.1 200 OK|second')
  })

  it('is left out where the final answer was quicker', async () => {
    const text = await answersTo((response) => setTimeout(() => response.end('first'), 60))
    expect(text).toBe('HTTP/1.1 200 OK|firstHTTP/1.1 200 OK|second')
  })
})

describe('lingerOnClose', () => {
  it('lets a client that is still sending read the answer and its end, instead of a reset', async () => {
    const server = await serve((asked, response) => {
      makeLast(response)
      lingerOnClose(asked.socket)
      response.writeHead(413).end('too large')
    })
    const client = await open(server)
    client.socket.write('POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n')
    for (let sent = 0; sent < 500_000; sent += 50_000) {
      client.socket.write('x'.repeat(50_000))
      await sleep(5)
    }
    await expect.poll(client.ended).toBe(true)
    expect(client.text()).toContain('too large')
    expect(client.errors).toEqual([])
  })

  it('destroys the connection of a client that never ends its side', async () => {
    const server = await serve((asked, response) => {
      makeLast(response)
      lingerOnClose(asked.socket)
      response.end()
    })
    const client = await open(server)
    client.socket.allowHalfOpen = true
    const closed = new Promise((resolve) => client.socket.on('close', resolve))
    const sending = setInterval(() => client.socket.write('x'), 20)
    client.socket.write(request())
    await closed
    clearInterval(sending)
    expect(client.errors.length).toBeGreaterThan(0)
  })
})

describe('responseOnSocket', () => {
  it('writes a whole answer to a bare socket, closes once, and ends the connection', async () => {
    const server = await serve(() => undefined)
    let closes = 0
    server.on('upgrade', (asked, socket) => {
      const response = responseOnSocket(asked, socket)
      response.on('close', () => closes++)
      response.writeHead(426, ['Content-Length', '2'])
      response.end('no')
    })
    const client = await open(server)
    client.socket.write(request('Connection: Upgrade\r\nUpgrade: websocket\r\n'))
    await expect.poll(client.ended).toBe(true)
    expect(client.text()).toMatch(/^HTTP\/1\.1 426 [^]*Connection: close\r\n[^]*\r\nno$/)
    expect(closes).toBe(1)
  })
})

describe('endWithSocket', () => {
  it('ends every response of a connection that has gone, queued ones included, once', async () => {
    const closes = new Map<ServerResponse, number>()
    const server = await serve((asked, response) => {
      if (closes.size === 0)
        endWithSocket(asked.socket, () => [...closes.keys()].filter((one) => closes.get(one) === 0))
      closes.set(response, 0)
      response.on('close', () => closes.set(response, (closes.get(response) ?? 0) + 1))
      // Answers to pipelined requests wait for the first, which never comes.
      if (closes.size > 1) response.end('ok')
    })
    const client = await open(server)
    client.socket.write(request().repeat(3))
    await expect.poll(() => closes.size).toBe(3)
    client.socket.destroy()
    await expect.poll(() => [...closes.values()]).toEqual([1, 1, 1])
    await sleep(50)
    expect([...closes.values()]).toEqual([1, 1, 1])
  })
})

describe('guardParser', () => {
  const freely = { mayBegin: () => true, mayGoOn: () => true, mayReadOn: () => true }

  /** Stops the parser behind every head, and parses on 10 ms later. */
  async function stopping(mayBegin: () => boolean = () => true) {
    const intakes = new Map<Socket, Intake>()
    const seen: string[] = []
    const left: number[] = []
    const server = await serve((asked, response) => {
      let body = ''
      asked.on('data', (bytes: Buffer) => (body += bytes.toString()))
      asked.on('end', () => seen.push(`${asked.method} ${body}`))
      response.end('ok')
    })
    server.on('connection', (socket: Socket) =>
      intakes.set(
        socket,
        guardParser(socket, { mayBegin, mayGoOn: () => false, mayReadOn: () => true }),
      ),
    )
    server.on('clientError', (error: ParserError, duplex) => {
      const socket = duplex as Socket
      if (error.code !== 'HPE_PAUSED') {
        socket.end(error.code ?? '')
        return
      }
      const rest = error.rawPacket?.subarray(error.bytesParsed) ?? Buffer.alloc(0)
      left.push(rest.length)
      const intake = intakes.get(socket)
      intake?.divert((bytes) => intake.parse(bytes))
      socket.pause()
      setTimeout(() => {
        intake?.parse(rest)
        socket.resume()
      }, 10)
    })
    return { client: await open(server), seen, left }
  }
  const post = 'POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}'

  it('stops the parser behind a head, with what is left of the packet', async () => {
    const { client, seen, left } = await stopping()
    client.socket.write(post + post + request())
    await expect.poll(() => seen).toEqual(['POST {}', 'POST {}', 'GET '])
    expect(left).toEqual([post.length + request().length + 2, request().length + 2, 0])
    client.socket.write(`${request()}nonsense`)
    await expect.poll(client.text).toMatch(/(ok[^]*){4}HPE_INVALID_METHOD$/)
    expect(seen).toHaveLength(4)
  })

  it('keeps a request from http', async () => {
    const { client, seen, left } = await stopping(() => left.length === 0)
    client.socket.write(post + post + post)
    await expect.poll(() => left).toEqual([2 * post.length + 2, post.length + 2, 2])
    expect(seen).toEqual(['POST {}'])
  })

  it.each(['of the parser', 'that were diverted'])(
    'discards bytes %s a packet at a time',
    async (whose) => {
      let bytesRead = 0
      let intake: Intake | undefined
      const errors: unknown[] = []
      const server = await serve((asked) => {
        bytesRead = asked.socket.bytesRead
        setInterval(() => (bytesRead = asked.socket.bytesRead), 10).unref()
        intake?.discard()
      })
      server.on('clientError', (error) => errors.push(error))
      server.on('connection', (socket: Socket) => {
        intake = guardParser(socket, freely)
        const { divert, parse } = intake
        if (whose !== 'of the parser') divert((bytes) => parse(bytes))
      })
      const client = await open(server)
      client.socket.write(request())
      await expect.poll(() => bytesRead).toBeGreaterThan(0)
      for (let sent = 0; sent < 200; sent++) client.socket.write(Buffer.alloc(100_000, 'x'))
      await expect.poll(() => bytesRead).toBeGreaterThan(1_000_000)
      expect(bytesRead).toBeLessThan(10_000_000)
      expect(errors).toEqual([])
    },
  )

  it('hands a connection over with what stands behind the handshake', async () => {
    const server = await serve(() => undefined)
    let intake: Intake | undefined
    server.on('connection', (socket: Socket) => {
      intake = guardParser(socket, freely)
      const { divert, parse } = intake
      divert((bytes) => parse(bytes))
    })
    server.on('upgrade', (_, socket, head) => {
      socket.write(`head: ${head.toString()}; `)
      socket.on('data', (bytes: Buffer) => socket.write(`data: ${bytes.toString()}`))
    })
    const client = await open(server)
    client.socket.write(`${request('Connection: Upgrade\r\nUpgrade: websocket\r\n')}one`)
    await expect.poll(client.text).toBe('head: one; ')
    expect(intake?.parse(Buffer.from(request()))).toBe(false)
    client.socket.write('two')
    await expect.poll(client.text).toBe('head: one; data: two')
  })
})

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
    await expect.poll(() => received, { timeout: 20_000 }).toBeGreaterThan(all)
    expect(taken()).toBe(received)
    client.destroy()
  })
})

describe('limitHeads', () => {
  it('bounds the heads of connections that come later', async () => {
    const server = await serve((_, response) => response.end())
    const { port } = server.address() as AddressInfo
    const status = async () =>
      (await fetch(`http://127.0.0.1:${port}/`, { headers: { long: 'x'.repeat(9_000) } })).status
    limitHeads(server, 4_096)
    server.closeIdleConnections()
    expect(await status()).toBe(431)
    limitHeads(server, 32_768)
    expect(await status()).toBe(200)
  })
})

describe('keepEveryField', () => {
  it('shows a request all of its 2,501 fields, which it would not be without', async () => {
    const options = { maxHeaderSize: 65_536 }
    const fieldsOf = async (prepare: (server: Server) => void): Promise<number> => {
      let fields = 0
      const server = await serve((asked, response) => {
        fields = asked.rawHeaders.length / 2
        response.end()
      }, options)
      prepare(server)
      const client = await open(server)
      client.socket.write(request('a: b\r\n'.repeat(2_500)))
      await expect.poll(client.text).toMatch(/^HTTP/)
      return fields
    }
    expect(await fieldsOf(keepEveryField)).toBe(2_501)
    expect(await fieldsOf(() => undefined)).toBeLessThan(2_501)
  })
})

describe('serveUnbound and feed', () => {
  /** Listens in place of the server, and feeds it. */
  async function listenFor(server: Server, prepare: (socket: Socket) => Promise<void>) {
    const options = { allowHalfOpen: true, noDelay: true }
    const listener = createNetServer(options, (socket) => {
      void prepare(socket).then(() => feed(server, socket))
    })
    servers.push(server)
    listeners.push(listener)
    await once(listener.listen(0, '127.0.0.1'), 'listening')
    return listener
  }
  const listeners: NetServer[] = []
  afterEach(() => listeners.splice(0).forEach((listener) => listener.close()))
  const options = { headersTimeout: 300, requestTimeout: 300, connectionsCheckingInterval: 50 }

  it('leave idle connections open and time-outs running when nobody listens any more, and tell when the last has gone', async () => {
    const server = createServer(options, (_, response) => response.end('ok'))
    serveUnbound(server)
    const listener = await listenFor(server, async () => {})
    const [idle, slow, last] = [await open(listener), await open(listener), await open(listener)]
    for (const { socket } of [idle, last]) socket.write(request())
    await expect.poll(idle.text).toMatch(/ok$/)
    await expect.poll(last.text).toMatch(/ok$/)
    slow.socket.write('GET / HTTP/1.1\r\n')
    let isClosed = false
    listener.close(() => (isClosed = true))
    await expect.poll(slow.text).toMatch(/^HTTP\/1\.1 408 /)
    expect([idle.ended(), isClosed]).toEqual([false, false])
    idle.socket.write(request())
    await expect.poll(() => idle.text().split('HTTP/1.1 200').length).toBe(3)
    idle.socket.end()
    expect(last.ended()).toBe(false)
    server.closeIdleConnections()
    await expect.poll(last.ended).toBe(true)
    await expect.poll(() => isClosed).toBe(true)
  })

  it.each(['no byte', 'the first byte', 'all'])(
    'bring a connection of which %s was read and put back',
    async (which) => {
      const server = createServer(options, (_, response) => response.end('ok'))
      serveUnbound(server)
      const listener = await listenFor(server, async (socket) => {
        if (which === 'no byte') return
        const [bytes] = (await once(socket, 'data')) as [Buffer]
        socket.pause()
        socket.unshift(bytes)
      })
      const client = await open(listener)
      if (which === 'the first byte') {
        client.socket.write('G')
        await sleep(50)
        client.socket.write(request().slice(1))
      } else client.socket.write(request())
      await expect.poll(client.text).toMatch(/^HTTP\/1\.1 200 [^]*ok$/)
    },
  )
})

describe('bindSocket', () => {
  it('binds a socket that another server can listen on by its descriptor', async () => {
    const probe = createNetServer().listen(0, '127.0.0.1')
    await once(probe, 'listening')
    const { port } = probe.address() as AddressInfo
    expect(() => bindSocket({ host: '127.0.0.1', port, reusePort: false }).close()).toThrow(
      expect.objectContaining({ code: 'EADDRINUSE' }),
    )
    await new Promise((resolve) => probe.close(resolve))
    const bound = bindSocket({ host: '127.0.0.1', port, reusePort: false })
    const server = createServer((_, response) => response.end('ok'))
    servers.push(server)
    server.listen({ fd: bound.fd })
    await once(server, 'listening')
    expect((server.address() as AddressInfo).port).toBe(port)
    const client = await open(server)
    client.socket.write(request())
    await expect.poll(client.text).toMatch(/ok$/)
  })
})

describe('restBetweenRequests', () => {
  const unhurried = { restMs: () => 0, mayGoOn: () => true, onStray: () => {} }
  const inNextTurn = (act: () => void): void => void setImmediate(() => setImmediate(act))

  async function answering(behind: (socket: Socket) => void) {
    let connections = 0
    const server = createNetServer((socket) => {
      connections++
      socket.on('error', () => {})
      socket.on('data', () => {
        socket.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
        behind(socket)
      })
    })
    const port = await listen(server)
    return { port, connections: () => connections, close: () => server.close() }
  }

  async function ask(agent: Agent, port: number): Promise<number | undefined> {
    const [response] = (await once(get({ port, agent, host: '127.0.0.1' }), 'response')) as [
      IncomingMessage,
    ]
    response.resume()
    await once(response, 'end')
    return response.statusCode
  }

  /** Answers on as many connections as the requests were sent on, each at once behind the other. */
  async function connectionsFor(
    count: number,
    agent: Agent,
    behind: (socket: Socket) => void,
  ): Promise<number> {
    const server = await answering(behind)
    for (let sent = 0; sent < count; sent++) await ask(agent, server.port)
    agent.destroy()
    server.close()
    return server.connections()
  }

  it('keeps a connection for the next request, until it is spent', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    let uses = 0
    const restMs = () => (++uses % 3 === 0 ? Infinity : 0)
    restBetweenRequests(agent, { ...unhurried, restMs })
    expect(await connectionsFor(9, agent, () => {})).toBe(3)
  })

  it.each([
    ['its end', (socket: Socket) => void socket.end()],
    ['its end a little later', (socket: Socket) => inNextTurn(() => socket.end())],
    ['its reset', (socket: Socket) => inNextTurn(() => socket.resetAndDestroy())],
    ['a stray byte', (socket: Socket) => inNextTurn(() => socket.write('x'))],
  ])('hears %s behind the answer before the next request is sent', async (_, behind) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    restBetweenRequests(agent, unhurried)
    expect(await connectionsFor(20, agent, behind)).toBe(20)
  })

  it('closes a connection that may not go on when it has rested', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    restBetweenRequests(agent, { ...unhurried, restMs: () => 5, mayGoOn: () => false })
    expect(await connectionsFor(3, agent, () => {})).toBe(3)
  })

  it.each([
    ['while it rests', 60],
    ['when it has rested', 0],
  ])('ends a connection that carries nothing at a byte that comes %s', async (_, rest) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    let strays = 0
    restBetweenRequests(agent, { ...unhurried, restMs: () => rest, onStray: () => void strays++ })
    const closed: Promise<unknown>[] = []
    const behind = (socket: Socket): void => {
      closed.push(once(socket, 'close'))
      setTimeout(() => socket.write('x'), 30)
    }
    const server = await answering(behind)
    await ask(agent, server.port)
    await closed[0]
    expect(await ask(agent, server.port)).toBe(200)
    await closed[1]
    expect([strays, server.connections()]).toEqual([2, 2])
    agent.destroy()
    server.close()
  })
})

describe('endHasCome', () => {
  it('knows of the end of a stream that nobody has read', async () => {
    const stream = new PassThrough()
    stream.write('x')
    await sleep(1)
    expect(endHasCome(stream)).toBe(false)
    stream.end()
    await sleep(1)
    expect([endHasCome(stream), stream.readableEnded]).toEqual([true, false])
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
  const port = await listen(server)
  const open = async () => {
    const peer = await openH2Peer(port)
    await peer.waitFor(() => peer.find(types.settings) !== undefined, 'SETTINGS')
    return peer
  }
  const close = (): void => {
    for (const socket of sockets) socket.destroy()
    server.close()
  }
  return { sockets, open, close }
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
    server.close()
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
    server.close()
  })
})

describe('endHandOver', () => {
  it('lets a session end before http2 has read what was put back on its socket', async () => {
    const http2 = createHttp2Server()
    let destroyed = 0
    const server = createNetServer((socket) => {
      socket.once('data', (bytes: Buffer) => {
        socket.pause()
        socket.unshift(bytes)
        http2.once('session', (session) => {
          endHandOver(session, socket)
          session.destroy()
          socket.destroy()
          destroyed += 1
        })
        http2.emit('connection', socket)
      })
    })
    await listen(server)
    const peer = await openH2Peer((server.address() as AddressInfo).port)
    await expect.poll(() => [destroyed, peer.closed]).toEqual([1, true])
    server.close()
  })
})

describe('isHttp2Safe', () => {
  it('says no of the oldest Node.js that we run on', () => {
    expect(isHttp2Safe).toBe(!process.version.startsWith('v22.'))
  })
})

describe('watchPieces', () => {
  it('hears of the content of each DATA frame, read or not', async () => {
    const pieces: number[] = []
    const server = await serveHttp2((stream) => watchPieces(stream, (bytes) => pieces.push(bytes)))
    const peer = await server.open()
    const data = (flags: number, text: string) => frame(types.data, flags, 1, Buffer.from(text))
    peer.send(headers(1, POST, END_HEADERS), data(0, 'a'), data(0, 'bc'), data(END_STREAM, 'def'))
    await expect.poll(() => pieces).toEqual([1, 2, 3])
    server.close()
  })
})
