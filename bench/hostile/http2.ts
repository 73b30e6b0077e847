/** Attacks over HTTP/2 with TLS, written frame by frame, and the client that asks beside them. */
import { connect, constants, type ClientHttp2Session } from 'node:http2'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  END_HEADERS,
  END_STREAM,
  frame,
  headers,
  PREFACE,
  settings,
  types,
} from '../../test/support/h2-frames.ts'
import type { AttackOrder, AttackOutcome } from './orders.ts'
import { happens, openSocket } from './sockets.ts'

const STREAMS_OF_BODIES = 30
const FRAMES_OF_EACH = 2_000
/** As many requests as a connection may have open. */
const STREAMS_AT_ONCE = 100
const OPEN_MS = 5_000

function fieldsOf(key: string | undefined, method = 'GET'): string[] {
  const target = [':scheme', 'https', ':authority', 'bench.example', ':path', '/v1/pets']
  const authorization = key === undefined ? [] : ['authorization', `Bearer ${key}`]
  return [':method', method, ...target, ...authorization]
}

/** Bodies of several requests at once in DATA frames of one byte, their frames in turn. */
export function tinyFrames({ key }: AttackOrder): Buffer {
  const ids = Array.from({ length: STREAMS_OF_BODIES }, (_, at) => 2 * at + 1)
  const fields = fieldsOf(key, 'POST')
  const round = Buffer.concat(ids.map((id) => frame(types.data, 0, id, [0x78])))
  return Buffer.concat([
    ...ids.map((id) => headers(id, fields, END_HEADERS)),
    ...Array<Buffer>(FRAMES_OF_EACH).fill(round),
    ...ids.map((id) => frame(types.data, END_STREAM, id)),
  ])
}

export function streamsAtOnce({ key }: AttackOrder): Buffer {
  const fields = fieldsOf(key)
  const ids = Array.from({ length: STREAMS_AT_ONCE }, (_, at) => 2 * at + 1)
  return Buffer.concat(ids.map((id) => headers(id, fields)))
}

/** All connections are open before one of them sends; each sends once. */
export async function http2Burst(order: AttackOrder, bytes: Buffer): Promise<AttackOutcome> {
  const count = { connections: 0, 'thrown out': 0, MB: 0 }
  const go = Promise.withResolvers<void>()
  const strike = async (): Promise<void> => {
    const socket = openSocket(order.port, { ...order, alpn: ['h2'] }).resume()
    const closed = happens(socket, 'close')
    await Promise.race([closed, happens(socket, 'secureConnect')])
    if (!socket.destroyed) count.connections += 1
    await go.promise
    if (socket.destroyed) return
    const all = Buffer.concat([PREFACE, settings(), bytes])
    socket.write(all, () => (count.MB += bytes.length / 1e6))
    await Promise.race([closed, sleep(order.ms)])
    if (socket.destroyed) count['thrown out'] += 1
    socket.destroy()
  }
  const begunMs = performance.now()
  const strikes = Array.from({ length: order.connections }, strike)
  while (count.connections < order.connections && performance.now() - begunMs < OPEN_MS)
    await sleep(20)
  go.resolve()
  await sleep(order.ms)
  await Promise.race([Promise.all(strikes), sleep(1_000)])
  return { ...count, MB: Math.round(count.MB) }
}

/** One connection on which requests go one by one or together; resolves with the status, `none` if there is none. */
export function openHttp2(port: number, key: string): () => Promise<string> {
  let session: ClientHttp2Session | undefined
  const open = (): ClientHttp2Session => {
    const opened = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false })
    opened.on('error', () => undefined)
    opened.once('close', () => (session = undefined))
    return opened
  }
  return () =>
    new Promise((resolve) => {
      session ??= open()
      const stream = session.request(fieldsOf(key))
      let status = 'none'
      stream.on('response', (fields) => (status = String(fields[constants.HTTP2_HEADER_STATUS])))
      stream.on('error', () => undefined).resume()
      stream.once('close', () => resolve(status))
    })
}
