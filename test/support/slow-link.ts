/** A TCP link to a loopback port that holds back what comes through it, for as long as the test says. */
import { connect, createServer } from 'node:net'
import { listening } from './listening.ts'

export type SlowLink = Awaited<ReturnType<typeof startSlowLink>>

export async function startSlowLink(toPort: number) {
  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ host: '127.0.0.1', port: toPort, noDelay: true })
    for (const socket of [near, far]) {
      socket.on('error', () => undefined)
      socket.on('close', () => {
        near.destroy()
        far.destroy()
      })
    }
    near.on('data', (piece) => far.write(piece))
    let readyAtMs = 0
    far.on('data', (piece) => {
      // Never sooner than the piece before it.
      readyAtMs = Math.max(readyAtMs, link.heldUntilMs, performance.now() + link.delayMs)
      setTimeout(() => void near.write(piece), Math.max(0, readyAtMs - performance.now()))
    })
  })
  const link = {
    port: await listening(server),
    /** How long each piece is held back on its way back to the client. Pieces keep their order. */
    delayMs: 0,
    /** What comes back until then is held back until then, by performance.now(). */
    heldUntilMs: 0,
  }
  return link
}
