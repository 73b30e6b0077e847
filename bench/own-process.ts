/** What the bench's own processes have in common: they say where they listen or do what they are told, and end with the bench. */
import type { AddressInfo, Server } from 'node:net'

/** Listens on a free loopback port and prints the line that the bench waits for. */
export function listen(server: Server): void {
  endWithBench()
  server.listen(0, '127.0.0.1', () => announce('server', server))
}

export function announce(name: string, server: Server): void {
  const { port } = server.address() as AddressInfo
  console.log(`${name} listening on http://127.0.0.1:${port}`)
}

export function endWithBench(): void {
  process.once('SIGTERM', () => process.exit(0))
  process.once('disconnect', () => process.exit(0))
}

/** Makes this process a worker: it says that it is ready, and answers each order with what came of it. */
export function obey(work: (order: never) => Promise<unknown>): void {
  endWithBench()
  process.on('message', (order) => {
    void work(order as never).then((outcome) => process.send?.(outcome))
  })
  process.send?.('ready')
}
