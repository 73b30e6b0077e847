/** Reads the first bytes of a connection, which say what it is: a PROXY header, or the preface of HTTP/2. */
import type { Socket } from 'node:net'

/** Begins a connection of HTTP/2 without TLS (RFC 9113 3.3), and no request of HTTP/1.1. */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

/**
 * Reads on while the first bytes are incomplete. done: called once; undefined: what came is invalid, or came too late, or the
 * peer has ended its side. bytes: length of the first ones; those behind them are put back, and the connection is paused.
 */
export function readFirst<Found extends { readonly bytes: number }>(
  socket: Socket,
  timeoutMs: number,
  read: (seen: Buffer) => Found | 'incomplete' | undefined,
  done: (found: Found | undefined) => void,
): void {
  let seen: Buffer = Buffer.alloc(0)
  const end = (found?: Found): void => {
    clearTimeout(timer)
    socket.pause().off('data', onData).off('end', onGone).off('close', onGone)
    if (found !== undefined && seen.length > found.bytes) socket.unshift(seen.subarray(found.bytes))
    done(found)
  }
  const onData = (bytes: Buffer): void => {
    seen = Buffer.concat([seen, bytes])
    const found = read(seen)
    if (found !== 'incomplete') end(found)
  }
  const onGone = (): void => end()
  const timer = setTimeout(onGone, timeoutMs)
  socket.on('data', onData).once('end', onGone).once('close', onGone).resume()
}

export function readPreface(seen: Buffer): { bytes: number; isHttp2: boolean } | 'incomplete' {
  const length = Math.min(seen.length, PREFACE.length)
  const isHttp2 = seen.compare(PREFACE, 0, length, 0, length) === 0
  return isHttp2 && length < PREFACE.length ? 'incomplete' : { bytes: 0, isHttp2 }
}
