/** Backends under another configuration: what is kept, what drains, what never begins. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { WebSocket, WebSocketServer } from 'ws'
import { describe, expect, it } from 'vitest'
import { keys, sha256 } from '../../support/gateway.ts'
import { listening } from '../../support/listening.ts'
import { temporaryFile } from '../../support/processes.ts'
import { until } from '../../support/raw-backend.ts'
import { openServing, readBlocks } from '../../support/serving.ts'

/** Answers its name, to what it holds when released, and echoes over WebSockets. */
async function startNamed(name: string, held = '/v1/pets') {
  const released = Promise.withResolvers<void>()
  const open = new Set<Socket>()
  const seen = { connections: 0, checks: 0, requests: 0 }
  const server = createServer(({ url }, response) => {
    if (url === '/health') seen.checks++
    else seen.requests++
    void (url === held ? released.promise : Promise.resolve()).then(() => response.end(name))
  })
  server.on('connection', (socket) => {
    seen.connections++
    open.add(socket)
    socket.once('close', () => open.delete(socket))
  })
  new WebSocketServer({ server }).on('connection', (socket) =>
    socket.on('message', (data) =>
      socket.send(Buffer.concat([Buffer.from(`${name} `), data as Buffer])),
    ),
  )
  const url = `http://127.0.0.1:${await listening(server)}`
  return { url, open, seen, release: () => released.resolve() }
}

const upstream = (url: string, more = '') => ({ upstream: `upstream: { urls: ["${url}"]${more} }` })
const onlyPro = {
  clients: `clients: [{ id: pro-client, plan: pro, keys: [{ id: pro-1, sha256: ${sha256(keys.pro)} }] }]`,
}
type Door = Awaited<ReturnType<typeof openServing>>
const ask = async (door: Door, path = '/v1/pets/1') => (await door.get(path, keys.pro)).text()

async function openTunnel(door: Door) {
  const headers = { authorization: `Bearer ${keys.free}` }
  const socket = new WebSocket(`ws://127.0.0.1:${door.port}/v1/live`, { headers })
  await once(socket, 'open')
  return {
    socket,
    async say(text: string): Promise<string> {
      socket.send(text)
      return String((await once(socket, 'message'))[0])
    },
  }
}

describe('backends under another configuration', () => {
  it('keep their connections and standing where nothing is said otherwise of them', async () => {
    const a = await startNamed('a')
    const door = await openServing([a.url])
    const { balancer } = door.serving
    expect(await ask(door)).toBe('a')
    await door.take({ ...onlyPro, unmatched: 'unmatched: forward' })
    expect(await ask(door)).toBe('a')
    expect([a.seen.connections, door.serving.balancer === balancer]).toEqual([1, true])
    // What is counted of a backend goes on under its name.
    await door.take(upstream(a.url, ', connections: 7'))
    expect([await ask(door), a.seen.connections]).toEqual(['a', 2])
    expect(await door.metrics()).toContain(
      `tollgate_backend_requests_total{backend="${a.url}",outcome="2xx"} 3`,
    )
  })

  it('get all new requests; the old ones keep what has begun, revoked keys excepted, and their connections close behind the last', async () => {
    const [a, b] = [await startNamed('a'), await startNamed('b')]
    const door = await openServing([a.url])
    const tunnel = await openTunnel(door)
    const held = ask(door, '/v1/pets')
    await until(() => a.open.size === 2, 'a request that is held, and a tunnel')
    await door.take(upstream(b.url))
    expect([await ask(door), await tunnel.say('on')]).toEqual(['b', 'a on'])
    // Longer than it takes to find a retired one idle.
    await sleep(1_500)
    expect(await tunnel.say('and on')).toBe('a and on')
    a.release()
    expect(await held).toBe('a')
    await door.take({ ...upstream(b.url), ...onlyPro })
    expect((await once(tunnel.socket, 'close'))[0]).toBe(1008)
    await until(() => a.open.size === 0, 'the end of connections to the old backend')
    expect([await ask(door), b.seen.connections]).toEqual(['b', 1])
    const outcomes = (await door.metrics()).filter((line) => /requests_total.*"2xx"/.test(line))
    expect(outcomes).toContain(
      `tollgate_backend_requests_total{backend="${b.url}",outcome="2xx"} 2`,
    )
  })

  it('are as bad as they were, and those that are gone from it have no say', async () => {
    const [a, b, c] = [await startNamed('a', ''), await startNamed('b'), await startNamed('c')]
    const settings = (urls: readonly string[], connections: number) => ({
      upstream: `upstream: { urls: [${urls.map((url) => `"${url}"`).join()}], connections: ${connections}, balance: round-robin, timeouts: { response: 1s }, eject: { failures: 1, for: 10m, maxFor: 1h } }`,
    })
    const door = await openServing([], settings([a.url, b.url], 128))
    const knownOf = (url: string) => {
      const backend = door.serving.balancer.backends.find(({ name }) => name === url)
      const { fault, faultSinceMs, ejectedUntilMs = 0 } = backend?.standing ?? {}
      return { fault, faultSinceMs, ejectedUntilMs }
    }
    for (let count = 0; count < 2; count++) await ask(door, '/v1/pets')
    const before = knownOf(b.url)
    expect(before.ejectedUntilMs).toBeGreaterThan(performance.now())
    const { requests } = b.seen
    ;(await door.prepare(settings([b.url, a.url], 130))).abort()
    for (const [urls, connections] of [
      [[a.url, b.url], 129],
      [[b.url, c.url, a.url], 129],
      [[b.url, a.url], 130],
    ] as const) {
      await door.take(settings(urls, connections))
      for (let count = 0; count < 4; count++) expect(await ask(door)).not.toBe('b')
      expect(knownOf(b.url)).toEqual(before)
    }
    expect(b.seen.requests).toBe(requests)
    const downs = door.lines().filter(({ event }) => event === 'backendDown')
    expect(downs).toHaveLength(1)
  })

  it('are usable at once, checked or not, where they were before, or answer a first check; those that do not are taken all the same', async () => {
    const [a, b] = [await startNamed('a'), await startNamed('b')]
    const [c, silent] = [await startNamed('c'), await startNamed('silent', '/health')]
    const door = await openServing([silent.url])
    const rows: [urls: string[], timeout: string, usable: string[]][] = [
      [[silent.url], '2s', [silent.url]],
      [[a.url, silent.url], '1900ms', [a.url, silent.url]],
      [[b.url, c.url], '1800ms', [b.url, c.url]],
      [[silent.url], '30s', []],
    ]
    for (const [urls, timeout, usable] of rows) {
      const list = urls.map((url) => `"${url}"`).join()
      const health = `health: { path: /health, every: 100ms, timeout: ${timeout} }`
      const prepared = await door.prepare({ upstream: `upstream: { urls: [${list}], ${health} }` })
      prepared.commit()
      // No check that begins with the commit has been answered yet.
      const seen = await door.serving.probeBackends()
      const names = seen.filter(({ isUsable }) => isUsable)
      expect(names.map(({ name }) => name)).toEqual(usable)
    }
    await door.take(upstream(silent.url))
    expect(door.serving.balancer.backends.map(({ standing }) => standing.isClear)).toEqual([true])
    expect(await ask(door)).toBe('silent')
  })

  it('are checked for their health, but for a first check, from the moment they get requests, and no longer', async () => {
    const [a, b] = [await startNamed('a'), await startNamed('b')]
    const checked = (url: string) => upstream(url, ', health: { path: /health, every: 100ms }')
    const door = await openServing([], checked(a.url))
    await until(() => a.seen.checks > 1, 'checks')
    const prepared = await door.prepare(checked(b.url))
    await sleep(250)
    expect(b.seen.checks).toBe(1)
    prepared.commit()
    const { checks } = a.seen
    await until(() => b.seen.checks > 4, 'checks')
    expect(a.seen.checks).toBeLessThanOrEqual(checks + 1)
    expect(await ask(door)).toBe('b')
  })

  it('stay as they were, and nothing is left running, where the new ones cannot be prepared or are given up', async () => {
    const [a, b] = [await startNamed('a'), await startNamed('b')]
    const door = await openServing([a.url])
    const garbage = temporaryFile('garbage.pem', 'garbage')
    const jwt = (keySet: string) => ({
      ...upstream(b.url),
      jwt: `jwt: { issuer: "https://id.example/", audience: us, algorithms: [ES256], ${keySet} }`,
    })
    const faults = [
      [
        upstream('https://127.0.0.1:1', `, tls: { ca: ${garbage} }`),
        /^upstream\.tls\.ca: \S+garbage/,
      ],
      [jwt(`jwksFile: ${garbage}`), /^jwt\.jwksFile \S+garbage.*not JSON/],
      [jwt(`jwksUri: "${b.url}/nothing"`), /^jwt\.jwksUri: no keys .*nothing/],
    ] as const
    for (const [blocks, fault] of faults) await expect(door.prepare(blocks)).rejects.toThrow(fault)
    const aborted = await door.prepare(upstream(b.url, ', health: { path: /health, every: 100ms }'))
    const { connections } = b.seen
    aborted.abort()
    expect(await ask(door)).toBe('a')
    // The key set that could not be had would be asked for again after a second.
    await sleep(1_300)
    expect([b.seen.connections, await ask(door)]).toEqual([connections, 'a'])
    expect(door.serving.facts.keySetFault).toBe(undefined)
  })

  it('are not exchanged while the gateway drains; what was prepared before and comes after its end leaves nothing running', async () => {
    const [a, b] = [await startNamed('a'), await startNamed('b')]
    const door = await openServing([a.url])
    const late = await door.prepare(upstream(b.url, ', health: { path: /health, every: 100ms }'))
    const { connections } = b.seen
    await door.serving.drain({ idleMs: 0 })
    await expect(door.prepare(upstream(b.url))).rejects.toThrow('draining')
    await door.stop()
    late.commit()
    await sleep(300)
    expect(b.seen.connections).toBe(connections)
  })

  it('are let go, with all else of their configuration, 60 times over, but for what a WebSocket needs', async () => {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const [a, b] = [await startNamed('a'), await startNamed('b')]
    const door = await openServing([a.url])
    const held: WeakRef<object>[] = []
    const take = async (round: number): Promise<void> => {
      const config = readBlocks([], {
        ...upstream((round % 2 === 0 ? a : b).url, `, connections: ${100 + round}`),
        plans: `plans: { free: { perMinute: 100, perDay: 10000 }, pro: { perMinute: ${1000 + round}, perDay: 10000 }, business: { perMinute: 1000, perDay: 100000 }, enterprise: { custom: true } }`,
        routes: `routes: [{ name: route${round}, match: GET /pets }, { name: live, match: GET /live, websocket: true }]`,
      })
      const prepared = await door.serving.prepare(config)
      prepared.commit()
      held.push(new WeakRef(config.plans))
    }
    for (let round = 0; round < 60; round++) {
      await take(round)
      if (round % 20 === 10) await openTunnel(door)
      if (round % 10 === 0) expect(await ask(door)).toBe(round % 2 === 0 ? 'a' : 'b')
    }
    const alive = () => {
      collect()
      return held.filter((ref) => ref.deref() !== undefined).length
    }
    await expect.poll(alive, { interval: 100 }).toBeLessThanOrEqual(2)
    const routes = (await door.metrics()).filter((line) =>
      line.startsWith('tollgate_request_duration_seconds_count'),
    )
    expect(routes).toHaveLength(3)
  })
})
