/** HTTP/2 without TLS begins with a preface (RFC 9113 3.3) that no HTTP/1.1 request begins with. */
import type { Socket } from 'node:net'

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

/** Reads until the protocol is known, within timeoutMs, and puts the bytes back. known: called once; undefined: the connection has ended. */
export function readPreface(
  socket: Socket,
  timeoutMs: number,
  known: (isHttp2: boolean | undefined) => void,
): void {
  let seen = Buffer.alloc(0)
  const end = (): void => void socket.destroy()
  const late = setTimeout(end, timeoutMs)
  const forget = (): void => {
    clearTimeout(late)
    known(undefined)
  }
  const onData = (bytes: Buffer): void => {
    seen = Buffer.concat([seen, bytes])
    const length = Math.min(seen.length, PREFACE.length)
    const isHttp2 = seen.compare(PREFACE, 0, length, 0, length) === 0
    if (isHttp2 && length < PREFACE.length) return
    clearTimeout(late)
    socket.off('data', onData).off('end', end).off('close', forget).off('error', ignore)
    socket.pause()
    socket.unshift(seen)
    known(isHttp2)
  }
  socket.on('data', onData).once('end', end).once('close', forget).on('error', ignore)
  // The reader of the PROXY header has paused the socket.
  socket.resume()
}

const ignore = (): void => {}
