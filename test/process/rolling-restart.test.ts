/** Two gateways on one Redis behind a real HAProxy with deploy/haproxy.cfg, each restarted in turn under load. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { Agent, request } from 'node:https'
import { connect } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { atEnd } from '../support/ending.ts'
import { ensurePackage } from '../support/debian-package.ts'
import { listening } from '../support/listening.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import { freePort, sharedRedis } from '../support/redis-server.ts'
import { makeCertificates } from '../support/redis-tls.ts'
import { again, clientsBlock, configFile, eventually, gatewayProcess, pick } from './gateways.ts'
import { storeOn, times, type GatewayProcess } from './gateways.ts'

/** As in production: HAProxy finds out in two seconds and a half, and may be held up. */
const DRAIN_DELAY_MS = 5_000
const key = 'tg_test_rolling'
const authorization = { authorization: `Bearer ${key}` }

/** Answers with what it heard of the client, and echoes on WebSockets. */
async function startBackend(): Promise<string> {
  const server = createServer((incoming, response) => {
    const { 'x-forwarded-for': address, 'x-forwarded-proto': proto } = incoming.headers
    incoming.resume().once('end', () => response.end([proto, address].join(' ')))
  })
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket) => {
    socket.on('error', () => {}).on('message', (data) => socket.send(data))
  })
  return `http://127.0.0.1:${await listening(server)}`
}

interface GatewayPorts {
  readonly listen: number
  readonly admin: number
}

/** HAProxy as operators are told to run it, with the addresses of this test. */
async function startHaproxy(gateways: readonly GatewayPorts[]) {
  ensurePackage('haproxy', { probe: ['haproxy', '-v'] })
  const certificates = makeCertificates()
  const { cert, key: certKey } = certificates.server
  const pem = temporaryFile('tollgate.pem', readFileSync(cert, 'utf8') + readFileSync(certKey))
  const port = await freePort()
  const socket = join(temporaryFolder(), 'admin.sock')
  const own: readonly (readonly [string, string])[] = [
    ['/run/haproxy/admin.sock mode', `${socket} mode`],
    ['bind :443', `bind 127.0.0.1:${port}`],
    ['/etc/haproxy/tollgate.pem', pem],
    ...gateways.map(
      ({ listen, admin }, at) =>
        [`10.0.0.1${at + 1}:8080`, `127.0.0.1:${listen} check port ${admin}`] as const,
    ),
  ]
  let config = readFileSync(join(import.meta.dirname, '../../deploy/haproxy.cfg'), 'utf8')
  for (const [from, to] of own) {
    expect(config, from).toContain(from)
    config = config.replace(from, to)
  }
  const file = temporaryFile('haproxy.cfg', config)
  const child = spawn('haproxy', ['-db', '-f', file], { stdio: 'ignore' })
  atEnd(() => child.kill('SIGKILL') && once(child, 'exit'))
  const ask = async (command: string): Promise<string[][]> => {
    const asked = connect(socket)
    const answer = text(asked).catch(() => '')
    asked.once('connect', () => asked.end(`${command}\n`))
    return (await answer).split('\n').map((line) => line.split(/[ ,]/))
  }
  return {
    origin: `https://127.0.0.1:${port}`,
    ca: readFileSync(certificates.ca),
    /** Its own word on a server. */
    isUp: async (at: number): Promise<boolean> =>
      (await ask('show servers state')).some(
        (row) => row[3] === `gateway-${at + 1}` && row[5] === '2',
      ),
    /** How often a connection to a gateway could not be made, and the other one was tried. */
    retried: async (): Promise<number> => {
      const [names = [], ...rows] = await ask('show stat')
      const row = rows.find(([proxy, name]) => proxy === 'gateways' && name === 'BACKEND') ?? []
      return Number(row[names.indexOf('wredis') - 1])
    },
  }
}

/** Half of the clients keep their connection, half open one for each request; every other request is a POST, which nobody may repeat. */
function startLoad(origin: string, ca: Buffer) {
  const answers = new Map<string, number>()
  const send = (agent: Agent | false, method: string): Promise<string> =>
    new Promise((resolve) => {
      const headers = { ...authorization, 'x-forwarded-for': '203.0.113.9' }
      request(`${origin}/v1/pets`, { agent, ca, method, headers }, (response) => {
        text(response).then(
          (body) => resolve(`${response.statusCode} ${body}`),
          (error: Error) => resolve(error.message),
        )
      })
        .once('error', (error) => resolve(error.message))
        .end(method === 'POST' ? '{}' : undefined)
    })
  const kept = new Agent({ keepAlive: true })
  const sent = times(8, () => 0)
  const stop = again(
    8,
    async (at) => {
      const method = pick(sent, at) % 2 === 0 ? 'GET' : 'POST'
      sent[at] = pick(sent, at) + 1
      const answer = await send(at % 2 === 0 && kept, method)
      answers.set(answer, (answers.get(answer) ?? 0) + 1)
    },
    80,
  )
  return { answers, stop: () => stop().finally(() => kept.destroy()) }
}

async function openWebSocket(origin: string, ca: Buffer) {
  const socket = new WebSocket(`${origin.replace('https', 'wss')}/v1/live`, {
    ca,
    headers: authorization,
  })
  let end: { code: number; atMs: number } | undefined
  socket.on('error', () => {}).on('close', (code) => (end = { code, atMs: performance.now() }))
  await once(socket, 'open')
  atEnd(() => socket.terminate())
  return { socket, end: () => end }
}

it('a rolling restart behind HAProxy fails no request, and tells WebSockets to come back', async () => {
  const backend = await startBackend()
  const redis = sharedRedis()
  const ports = await Promise.all(
    times(2, async () => ({ listen: await freePort(), admin: await freePort() })),
  )
  const files = ports.map(({ listen, admin }) =>
    configFile(backend, {
      server: `server: { listen: "127.0.0.1:${listen}", trustedProxies: [127.0.0.1], timeouts: { drainDelay: ${DRAIN_DELAY_MS}ms }, overload: { lag: 10s } }`,
      admin: `admin: { listen: "127.0.0.1:${admin}" }`,
      // A store that is late on a busy machine is no failure of the restart.
      store: storeOn(redis, 'onOutage: open'),
      clients: clientsBlock([{ id: 'acme', keys: [key], perMinute: 1_000_000 }]),
      log: 'log: { access: false }',
    }),
  )
  const gateways: GatewayProcess[] = await Promise.all(files.map((file) => gatewayProcess(file)))
  const { origin, ca, isUp, retried } = await startHaproxy(ports)
  await eventually('both are up', async () => (await isUp(0)) && (await isUp(1)))
  const load = startLoad(origin, ca)
  const sockets = await Promise.all(times(8, () => openWebSocket(origin, ca)))
  for (const [at, file] of files.entries()) {
    const open = sockets.filter(({ end }) => end() === undefined)
    const startedMs = performance.now()
    gateways[at]?.signal('SIGTERM')
    expect((await gateways[at]?.finished)?.code).toBe(0)
    const ended = open.flatMap(({ end }) => end() ?? [])
    // Those of this gateway, and not before the delay was over; the others go on.
    expect(ended.length).toBeGreaterThan(0)
    expect(ended.length).toBeLessThan(8)
    for (const { code, atMs } of ended) {
      expect(code).toBe(1001)
      expect(atMs - startedMs).toBeGreaterThan(DRAIN_DELAY_MS - 50)
    }
    expect(gateways[at]?.logged('drained')).toMatchObject([{ cutOff: 0 }])
    const back = await Promise.all(ended.map(() => openWebSocket(origin, ca)))
    for (const { socket } of back) {
      socket.send('again')
      expect(String((await once(socket, 'message'))[0])).toBe('again')
    }
    gateways[at] = await gatewayProcess(file)
    await eventually('it is up again', () => isUp(at))
  }
  await load.stop()
  expect(load.answers.size, JSON.stringify([...load.answers])).toBe(1)
  // The client's address and the scheme are HAProxy's word, not the client's own; then comes HAProxy itself.
  const [[answer, count] = ['', 0]] = load.answers
  expect(answer).toBe('200 https 127.0.0.1, 127.0.0.1')
  expect(count).toBeGreaterThan(100)
  // Nothing was even tried of a gateway that was gone: with the delay HAProxy knew in time.
  expect(await retried()).toBe(0)
})
