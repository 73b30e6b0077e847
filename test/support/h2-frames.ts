/** Writes frames of HTTP/2 (RFC 9113) as no library would, and reads what comes back. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { until } from './until.ts'

export const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

export const types = {
  data: 0,
  headers: 1,
  priority: 2,
  rst: 3,
  settings: 4,
  push: 5,
  ping: 6,
  goaway: 7,
  window: 8,
  continuation: 9,
} as const

export const END_STREAM = 1
export const END_HEADERS = 4
export const PADDED = 8

export function frame(
  type: number,
  flags: number,
  stream: number,
  payload: Buffer | readonly number[] = [],
): Buffer {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head.writeUInt8(type, 3)
  head.writeUInt8(flags, 4)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, Buffer.from(payload)])
}

export const uint32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}

/** Literals without indexing (RFC 7541 6.2.2), not compressed; text is latin1. */
export function hpack(fields: readonly string[]): Buffer {
  const parts: Buffer[] = []
  fields.forEach((text, at) => {
    if (at % 2 === 0) parts.push(Buffer.from([0]))
    parts.push(integer(text.length), Buffer.from(text, 'latin1'))
  })
  return Buffer.concat(parts)
}

/** With a prefix of 7 bits (RFC 7541 5.1). */
function integer(value: number): Buffer {
  if (value < 127) return Buffer.from([value])
  const bytes = [127]
  let rest = value - 127
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128)
  return Buffer.from([...bytes, rest])
}

export const headers = (
  stream: number,
  fields: readonly string[],
  flags = END_STREAM | END_HEADERS,
): Buffer => frame(types.headers, flags, stream, hpack(fields))

export const settings = (...pairs: readonly (readonly [number, number])[]): Buffer =>
  frame(
    types.settings,
    0,
    0,
    Buffer.concat(pairs.map(([id, value]) => Buffer.concat([Buffer.from([0, id]), uint32(value)]))),
  )

export interface Frame {
  readonly type: number
  readonly flags: number
  readonly stream: number
  readonly payload: Buffer
}

export type H2Peer = Awaited<ReturnType<typeof openH2Peer>>

/** What a balancer says in front of all else of whose connection it is (PROXY, version 1). */
export const proxyHeader = (from: string): string => `PROXY TCP4 ${from} 127.0.0.1 1000 80\r\n`

/** A connection of which the preface and SETTINGS are sent already, unless bare. from: the address that a balancer names. */
export async function openH2Peer(port: number, { secure = false, bare = false, from = '' } = {}) {
  const socket = secure
    ? connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2'] })
    : connect({ port, host: '127.0.0.1', noDelay: true })
  let rest = Buffer.alloc(0)
  let closed = false
  const frames: Frame[] = []
  socket.on('error', () => {})
  socket.on('end', () => (closed = true))
  socket.on('close', () => (closed = true))
  socket.on('data', (bytes: Buffer) => {
    rest = Buffer.concat([rest, bytes])
    for (;;) {
      const length = rest.length < 9 ? Infinity : 9 + rest.readUIntBE(0, 3)
      if (rest.length < length) return
      const [type = 0, flags = 0] = rest.subarray(3, 5)
      const stream = rest.readUInt32BE(5)
      frames.push({ type, flags, stream, payload: rest.subarray(9, length) })
      rest = rest.subarray(length)
    }
  })
  await Promise.race([once(socket, secure ? 'secureConnect' : 'connect'), once(socket, 'close')])
  const peer = {
    socket,
    frames: frames as readonly Frame[],
    /** Connected no more. */
    get closed() {
      return closed
    },
    send: (...bytes: readonly Buffer[]): void => {
      if (!socket.destroyed) socket.write(Buffer.concat(bytes))
    },
    /** Of the first such frame, on any stream or on this one. */
    find: (type: number, stream?: number): Frame | undefined =>
      frames.find((one) => one.type === type && (stream === undefined || one.stream === stream)),
    waitFor: until,
    destroy: () => void socket.destroy(),
  }
  if (from !== '') socket.write(proxyHeader(from))
  if (!bare) peer.send(PREFACE, settings())
  return peer
}
