/** Attacks over HTTP/2 with TLS, written frame by frame, and the client that asks beside them. */
import { connect, constants, type ClientHttp2Session } from 'node:http2'
import { connect as connectTls } from 'node:tls'
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
import { ADDRESS } from './sockets.ts'

export interface Http2Request {
  readonly path: string
  readonly method?: string
  /** undefined: no Authorization field. */
  readonly key?: string | undefined
}

const fieldsOf = ({ path, method = 'GET', key }: Http2Request): string[] => [
  ':method',
  method,
  ':scheme',
  'https',
  ':authority',
  'bench.example',
  ':path',
  path,
  ...(key === undefined ? [] : ['authorization', `Bearer ${key}`]),
]

/** Bodies of several requests at once in DATA frames of one byte, their frames in turn. */
export function tinyFrames({ request, streams = 30, times = 2_000 }: AttackOrder): Buffer {
  const ids = Array.from({ length: streams }, (_, at) => 2 * at + 1)
  const fields = fieldsOf({ path: '/v1/pets', method: 'POST', ...request })
  const round = Buffer.concat(ids.map((id) => frame(types.data, 0, id, [0x78])))
  return Buffer.concat([
    ...ids.map((id) => headers(id, fields, END_HEADERS)),
    ...Array<Buffer>(times).fill(round),
    ...ids.map((id) => frame(types.data, END_STREAM, id)),
  ])
}

/** As many requests as a connection may have open, in one write. */
export function streamsAtOnce({ request, streams = 100 }: AttackOrder): Buffer {
  const fields = fieldsOf({ path: '/v1/pets', ...request })
  return Buffer.concat(Array.from({ length: streams }, (_, at) => headers(2 * at + 1, fields)))
}

/** All connections are open before one of them sends; each sends once, and comes again when it is thrown out. */
export async function http2Burst(order: AttackOrder, bytes: Buffer): Promise<AttackOutcome> {
  const count = { connections: 0, 'thrown out': 0, MB: 0 }
  let isOver = false
  const strike = async (go: Promise<unknown>): Promise<void> => {
    const socket = connectTls({
      port: order.port,
      host: '127.0.0.1',
      localAddress: ADDRESS,
      rejectUnauthorized: false,
      ALPNProtocols: ['h2'],
    } as object)
    socket.on('error', () => undefined).resume()
    const closed = new Promise((resolve) => socket.once('close', resolve))
    await Promise.race([closed, new Promise((resolve) => socket.once('secureConnect', resolve))])
    if (!socket.destroyed) count.connections += 1
    await go
    if (isOver || socket.destroyed) return void socket.destroy()
    socket.write(
      Buffer.concat([PREFACE, settings(), bytes]),
      () => (count.MB += bytes.length / 1e6),
    )
    await Promise.race([closed, sleep(order.ms)])
    if (socket.destroyed) count['thrown out'] += 1
    socket.destroy()
  }
  const opened: Promise<void>[] = []
  const begun = performance.now()
  let start = (): void => undefined
  const go = new Promise<void>((resolve) => (start = resolve))
  for (let i = 0; i < order.connections; i++) opened.push(strike(go))
  while (count.connections < order.connections && performance.now() - begun < OPEN_MS)
    await sleep(20)
  start()
  await sleep(order.ms)
  isOver = true
  await Promise.race([Promise.all(opened), sleep(1_000)])
  return { ...count, MB: Math.round(count.MB) }
}

const OPEN_MS = 5_000

/** A connection of one's own on which requests go one by one or together. */
export function openHttp2(port: number, request: Http2Request) {
  let session: ClientHttp2Session | undefined
  const open = (): ClientHttp2Session => {
    const opened = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false })
    opened.on('error', () => undefined)
    opened.once('close', () => (session = undefined))
    return opened
  }
  return {
    /** Status of the answer, or why there is none. */
    ask: (): Promise<string> =>
      new Promise((resolve) => {
        session ??= open()
        const stream = session.request(fieldsOf(request))
        let status = 'none'
        stream.on('response', (fields) => (status = String(fields[constants.HTTP2_HEADER_STATUS])))
        stream.on('error', () => undefined).resume()
        stream.once('close', () => resolve(status))
      }),
    close: () => session?.destroy(),
  }
}
