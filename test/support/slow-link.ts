/** A TCP link to a loopback port that holds back what comes through it, for as long as the test says. */
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { atEnd } from './ending.ts'

export type SlowLink = Awaited<ReturnType<typeof startSlowLink>>

export async function startSlowLink(toPort: number) {
  const sockets = new Set<Socket>()
  const server = createServer({ noDelay: true }, (near) => {
    const far = connect({ host: '127.0.0.1', port: toPort, noDelay: true })
    for (const socket of [near, far]) {
      sockets.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => {
        sockets.delete(socket)
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
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const link = {
    port: (server.address() as AddressInfo).port,
    /** How long each piece is held back on its way back to the client. Pieces keep their order. */
    delayMs: 0,
    /** What comes back until then is held back until then, by performance.now(). */
    heldUntilMs: 0,
  }
  atEnd(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return link
}
