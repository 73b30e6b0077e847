/** What a client feels while others, without a credential, send all they can, and what that costs in memory. */
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { beforeAll, describe, expect, it } from 'vitest'
import { keys } from '../support/gateway.ts'
import { temporaryFile } from '../support/processes.ts'
import type { RawBackend } from '../support/raw-backend.ts'
import { call, configFile, eventually, gatewayProcess, startRawBackend, tally } from './gateways.ts'
import { times, type GatewayProcess } from './gateways.ts'

/** Without the pages of files, which a machine that is short of memory takes away and brings back. */
const residentMB = (pid: number): number =>
  Number(/RssAnon:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

/** Sends the request over and over, as fast as it is taken, and connects again whenever it is cut off; returns what ends that. */
function flood(port: number, request: string): { stop(): void; sentBytes(): number } {
  const block = Buffer.from(request.repeat(Math.ceil(65_536 / request.length)))
  let isOver = false
  let sentBytes = 0
  const open = (): void => {
    if (isOver) return
    const socket = connect(port, '127.0.0.1')
    const send = (): void => {
      if (isOver) return void socket.destroy()
      sentBytes += block.length
      // A turn between two blocks, so that the bystander in this process has its own.
      socket.write(block, () => setImmediate(send))
    }
    socket.once('connect', send).on('error', () => undefined)
    socket.resume().once('end', () => socket.destroy())
    socket.once('close', () => setImmediate(open))
  }
  open()
  return { stop: () => (isOver = true), sentBytes: () => sentBytes }
}

/** Asks without a key for each of these addresses, as a proxy would; resolves when all have been answered. */
async function askFor(port: number, from: number, to: number): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  let answers = 0
  let tail = ''
  socket.setEncoding('latin1').on('data', (text: string) => {
    const parts = (tail + text).split('"status":401}')
    answers += parts.length - 1
    tail = parts.at(-1)?.slice(-20) ?? ''
  })
  for (let at = from; at < to; at += 500) {
    const asked = times(500, (nth) => {
      const address = `2001:db8:${((at + nth) >> 16).toString(16)}:${((at + nth) & 0xffff).toString(16)}::1`
      return `GET /v1/pets HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${address}\r\n\r\n`
    })
    socket.write(asked.join(''))
    await eventually('their answers', () => answers === at - from + 500)
  }
  socket.destroy()
}

describe.skipIf(process.platform !== 'linux')('a gateway under a flood', () => {
  let gateway: GatewayProcess
  let port: number
  /** What answers in this process, which nobody floods: how busy the machine is. */
  let bare: RawBackend

  beforeAll(async () => {
    bare = await startRawBackend()
    const backend = await startRawBackend()
    const file = configFile(backend.url, {
      // A machine that is busy with other things sheds nothing.
      server:
        'server: { listen: "127.0.0.1:0", trustedProxies: ["127.0.0.1"], overload: { lag: 10s } }',
      log: 'log: { access: false }',
    })
    // It clears up what is dead when it is told to.
    const preload = temporaryFile(
      'preload.mjs',
      `import { runInNewContext } from 'node:vm'
       import { setFlagsFromString } from 'node:v8'
       setFlagsFromString('--expose-gc')
       const gc = runInNewContext('gc')
       process.on('SIGWINCH', () => gc())`,
    )
    /*
     * V8 lets what is dead lie until 50 MB have come together, and clears the rest up when the heap has doubled: under a
     * flood of minutes a gateway grows by up to 77 MB, and shrinks again. With little room for that, it grows by what it holds.
     */
    const env = { NODE_OPTIONS: `--max-semi-space-size=1 --import=${preload}` }
    gateway = await gatewayProcess(file, { env })
    port = Number(new URL(gateway.origin).port)
    for (let warm = 0; warm < 100; warm++) await gateway.call(keys.enterprise)
  })

  it.each([
    {
      while: 'one connection repeats a request that was refused for good',
      connections: 1,
      request: 'GET /%2e HTTP/1.1\r\nHost: x\r\n\r\n',
    },
    {
      while: 'eight connections repeat a request without a key',
      connections: 8,
      request: 'GET /v1/pets HTTP/1.1\r\nHost: x\r\n\r\n',
    },
    {
      while: 'eight connections send a body to a refusal',
      connections: 8,
      request: `POST /v1/pets HTTP/1.1\r\nHost: x\r\nContent-Length: 9000000\r\n\r\n${'x'.repeat(60_000)}`,
    },
  ])('serves a client with a key while $while', async ({ connections, request }) => {
    const beforeMB = residentMB(gateway.pid)
    const floods = times(connections, () => flood(port, request))
    const tookMs: number[] = []
    const bareMs: number[] = []
    let mostMB = 0
    const untilMs = performance.now() + 1_000
    const isEnough = () =>
      performance.now() > untilMs &&
      tookMs.length >= 20 &&
      floods.every(({ sentBytes }) => sentBytes() > 1e6)
    while (!isEnough()) {
      const answer = await gateway.call(keys.enterprise)
      expect(answer.status).toBe(200)
      tookMs.push(answer.tookMs)
      bareMs.push((await call(bare.url, undefined)).tookMs)
      mostMB = Math.max(mostMB, residentMB(gateway.pid))
    }
    floods.forEach(({ stop }) => stop())
    // On two quiet cores: 2 to 7 ms, and 25 ms at most.
    expect(median(tookMs)).toBeLessThan(500 + 20 * median(bareMs))
    // Eight seconds of it take 59 MB and no more, of which V8's young generation may be 48.
    expect(mostMB - beforeMB).toBeLessThan(80)
  })

  it('keeps little of 4,000 addresses that ask without a key', async () => {
    const heldMB = async (): Promise<number> => {
      gateway.signal('SIGWINCH')
      // The signal is heard before what comes after it is read.
      await gateway.call(keys.enterprise)
      return (await gateway.metric('nodejs_heap_size_used_bytes')) / 2 ** 20
    }
    const refusals = () => gateway.metric('tollgate_refusals_total{code="missing_api_key"')
    await askFor(port, 0, 1_000)
    const [beforeMB, before] = [await heldMB(), await refusals()]
    await Promise.all(times(4, (at) => askFor(port, (at + 1) * 1_000, (at + 2) * 1_000)))
    // 2 MB; 19 if exchanges were kept.
    expect((await heldMB()) - beforeMB).toBeLessThan(8)
    // What the floods before had sent may be answered meanwhile, too.
    expect((await refusals()) - before).toBeGreaterThanOrEqual(4_000)
  })
})

describe.skipIf(process.platform !== 'linux')('a process that may open few files', () => {
  it('keeps those that it needs: clients are served while 400 sockets are opened and left', async () => {
    const backend = await startRawBackend()
    const gateway = await gatewayProcess(configFile(backend.url), { openFiles: 300 })
    expect(gateway.logged('filesAreFew')).toEqual([
      expect.objectContaining({
        level: 'info',
        openFiles: 300,
        connections: 108,
        message: 'raise the limit of open files (ulimit -n, LimitNOFILE) to 20192',
      }),
    ])
    const port = Number(new URL(gateway.origin).port)
    const opened = times(400, () =>
      connect({ port, host: '127.0.0.1', localAddress: '127.0.0.2' }).on('error', () => undefined),
    )
    await eventually('all have tried', () => opened.every(({ connecting }) => !connecting))
    const answers = await Promise.all(times(20, () => gateway.call(keys.enterprise)))
    expect(tally(answers)).toEqual({ '200': 20 })
    expect((await fetch(`${gateway.adminOrigin}/readyz`)).status).toBe(200)
    expect(await gateway.metric('tollgate_connections ')).toBeLessThanOrEqual(108)
    // One address gets no more than a quarter of them.
    const kept = () => opened.filter(({ destroyed }) => !destroyed).length
    await eventually('the others are closed', () => kept() <= 27)
    opened.forEach((socket) => socket.destroy())
  })
})
