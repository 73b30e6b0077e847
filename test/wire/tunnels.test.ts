/** WebSockets while they last: how long they may, who may still have them, and what they leave in log and metrics. */
import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { minuteWithAtLeast, sha256 } from '../support/gateway.ts'
import { listening } from '../support/listening.ts'
import { ownMs } from '../support/own-time.ts'
import { temporaryFile } from '../support/processes.ts'
import { believing, createSigner, sign } from '../support/tokens.ts'
import { handshake, keys, request, switched, until } from './wire.ts'
import { openWire, type Wire, type WireOptions } from './wire.ts'

interface End {
  readonly code: number
  readonly reason: string
}

/** Every tunnel through the gateway, as both of its ends saw its end; echoes. */
async function openTunnels(options: WireOptions = {}) {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  const atBackend: End[] = []
  server.on('connection', (socket) => {
    socket.on('message', (data: Buffer) => socket.send(data))
    socket.on('close', (code, reason) => atBackend.push({ code, reason: String(reason) }))
    socket.on('error', () => {})
  })
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  onTestFinished(() => server.close())
  const wire = await openWire({ ...options, origin: `http://127.0.0.1:${port}` })
  const open = async (key: string) => {
    const socket = new WebSocket(`ws://127.0.0.1:${wire.gateway.port}/v1/live`, {
      headers: { authorization: `Bearer ${key}` },
    })
    let end: End | undefined
    socket.on('close', (code, reason) => (end = { code, reason: String(reason) }))
    socket.on('error', () => {})
    await once(socket, 'open')
    return { socket, ended: () => end }
  }
  return { wire, open, atBackend }
}

const closed = (wire: Wire, reason: string): Promise<number> =>
  wire.gateway.metric(`tollgate_tunnels_closed_total{reason="${reason}"}`)

describe('a tunnel', () => {
  it('is carried both ways, charged once, and recorded when it ends', async () => {
    const { wire, open, atBackend } = await openTunnels()
    const { socket } = await open(keys.pro)
    const messages: string[] = []
    socket.on('message', (data: Buffer) => messages.push(String(data)))
    const large = 'x'.repeat(3_000_000)
    for (const message of ['hello', large]) socket.send(message)
    await until(() => messages.length === 2, 'the echo')
    expect(messages).toEqual(['hello', large])
    socket.close(4001, 'bye')
    await until(() => atBackend.length === 1, 'the close')
    expect(atBackend).toEqual([{ code: 4001, reason: 'bye' }])
    await wire.settled()
    const lines = await wire.accessLines(1)
    expect(lines).toMatchObject([{ status: 101, route: 'live', client: 'pro-client' }])
    expect([lines.length, lines[0]?.['cause']]).toEqual([1, undefined])
    expect(await wire.charged()).toBe(1)
  })

  it('that is idle ends with 1001 on both sides, and one that is not goes on', async () => {
    const { wire, open, atBackend } = await openTunnels({
      server: 'timeouts: { drain: 1s, tunnelIdle: 1s }',
    })
    const [idle, busy] = [await open(keys.pro), await open(keys.pro)]
    expect(await wire.gateway.metric('tollgate_tunnels ')).toBe(2)
    const pings = setInterval(() => busy.socket.send('still here'), 200)
    await until(() => idle.ended() !== undefined && atBackend.length > 0, 'the end')
    const end = { code: 1001, reason: 'idle' }
    expect([idle.ended(), atBackend]).toEqual([end, [end]])
    expect(busy.ended()).toBeUndefined()
    expect(await wire.accessLines(1)).toMatchObject([{ status: 101, tunnelEnd: 'idle' }])
    clearInterval(pings)
    busy.socket.close(1000)
    await until(() => busy.ended() !== undefined, 'its own end')
    expect(busy.ended()?.code).toBe(1000)
    await wire.settled()
    expect((await wire.accessLines(2))[1]).toMatchObject({ tunnelEnd: 'client' })
    await expect.poll(() => wire.gateway.metric('tollgate_tunnels ')).toBe(0)
    expect([await closed(wire, 'idle'), await closed(wire, 'client')]).toEqual([1, 1])
    // How long they lasted is no time that the backend took.
    expect(await wire.gateway.metric('tollgate_requests_total{')).toBe(2)
    expect(await wire.gateway.metric('tollgate_backend_duration_seconds_count{')).toBe(0)
  })

  it('leaves its backend at once when its client resets, and soon when it only ends its side', async () => {
    const ended: [path: string, atMs: number][] = []
    // Neither ends its own side nor stops talking: it learns of the end by a reset.
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      let path = ''
      const pings = setInterval(() => path !== '' && socket.write(Buffer.of(0x89, 0)), 20)
      socket.on('data', (chunk: Buffer) => {
        const line = /^GET \/v1\/live\?(\w+) /.exec(chunk.toString('latin1'))
        if (line === null) return
        socket.write(switched)
        path = line[1] ?? ''
      })
      socket.on('error', () => {})
      socket.on('close', () => {
        clearInterval(pings)
        ended.push([path, ownMs()])
      })
    })
    const port = await listening(server)
    const { connect } = await openWire({ origin: `http://127.0.0.1:${port}` })
    const [ends, resets] = [await connect(), await connect()]
    for (const [client, path] of [
      [ends, 'ends'],
      [resets, 'resets'],
    ] as const) {
      client.send(request('GET', `/v1/live?${path}`, { fields: handshake }))
      await client.waitFor(({ responses }) => responses[0]?.status === 101)
    }
    const leftMs = ownMs()
    ends.end()
    await sleep(20)
    resets.reset()
    await until(() => ended.length === 2, 'the ends')
    expect(ended.map(([path]) => path)).toEqual(['resets', 'ends'])
    // What has a word left gets 5 s.
    expect((ended[1]?.[1] ?? Infinity) - leftMs).toBeLessThan(4_500)
  })

  it('ends with 1008 within a second when its key or token expires', async () => {
    const signer = await createSigner()
    const endsAtMs = Math.ceil(Date.now() / 1000 + 3) * 1000
    const expires = new Date(endsAtMs).toISOString().replace('.000', '')
    const token = await sign(signer, { exp: endsAtMs / 1000 })
    const blocks = {
      jwt: believing(`jwksFile: "${temporaryFile('jwks.json', signer.jwks)}"`),
      clients: `clients: [{ id: acme, plan: pro, keys: [{ id: a-1, sha256: ${sha256('soon')}, expires: ${expires} }, { id: a-2, sha256: ${sha256('never')} }] }]`,
    }
    const { wire, open, atBackend } = await openTunnels({ blocks })
    const [key, jwt, other] = [await open('soon'), await open(token), await open('never')]
    await until(() => key.ended() !== undefined && jwt.ended() !== undefined, 'the ends')
    expect(Date.now()).toBeGreaterThanOrEqual(endsAtMs)
    const end = { code: 1008, reason: 'the API key is not valid' }
    expect([key.ended(), jwt.ended()]).toEqual([end, end])
    await until(() => atBackend.length === 2, 'the ends at the backend')
    expect(atBackend).toEqual([end, end])
    expect(other.ended()).toBeUndefined()
    const line = { tunnelEnd: 'expired' }
    expect(await wire.accessLines(2)).toMatchObject([line, line])
    other.socket.close()
  })

  it('ends with 1008 when its key is banned, and the other keys of the client keep theirs', async () => {
    const blocks = {
      bans: 'bans: { strikes: 1, within: 1m, grace: 1ms, duration: 1m }',
      plans: 'plans: { free: { perMinute: 3, perDay: 100 } }',
      clients: `clients: [{ id: acme, plan: free, keys: [{ id: a-1, sha256: ${sha256('one')} }, { id: a-2, sha256: ${sha256('two')} }] }]`,
    }
    const { wire, open, atBackend } = await openTunnels({ blocks })
    await minuteWithAtLeast()
    const [one, two] = [await open('one'), await open('two')]
    while (one.ended() === undefined) {
      await wire.ask(request('GET', '/v1/pets', { key: 'one' }))
      await sleep(20)
    }
    expect(one.ended()).toEqual({ code: 1008, reason: 'the API key is banned' })
    expect(two.ended()).toBeUndefined()
    await until(() => atBackend.length === 1, 'the end at the backend')
    expect(await closed(wire, 'banned')).toBe(1)
    two.socket.close()
  })

  it('gets 1001 when the gateway drains, which waits for no more than the goodbyes', async () => {
    const server = 'timeouts: { drain: 200s }'
    const { wire, open, atBackend } = await openTunnels({ server, stopsItself: true })
    const tunnels = await Promise.all(Array.from({ length: 20 }, () => open(keys.business)))
    // The drain time would be longer than a test may take.
    await wire.gateway.stop()
    const end = { code: 1001, reason: 'the gateway goes away' }
    await until(() => tunnels.every(({ ended }) => ended() !== undefined), 'the ends')
    for (const { ended } of tunnels) expect(ended()).toEqual(end)
    expect(atBackend).toEqual(tunnels.map(() => end))
    const ends = wire.gateway.logLines().filter(({ event }) => event === 'access')
    expect(ends.map(({ tunnelEnd }) => tunnelEnd)).toEqual(tunnels.map(() => 'drain'))
  })
})
