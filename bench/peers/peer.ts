/** What all Node.js peers share: their configuration, the key lookup, and the line that says where they listen. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface PeerConfig {
  /** Scheme, host and port. */
  readonly backend: string
  readonly redis: string
  /** ioredis sends what is asked of it within one turn of the event loop as one write. */
  readonly pipelined: boolean
  readonly plan: string
  readonly limits: { readonly perMinute: number; readonly perDay: number }
  /** sha256: of the key, 64 hex digits. */
  readonly clients: readonly { readonly id: string; readonly sha256: string }[]
}

/** Reads the file named by the first argument. */
export function peerConfig(): PeerConfig {
  const file = process.argv[2]
  if (file === undefined) throw new Error('usage: PEER CONFIG.json')
  return JSON.parse(readFileSync(file, 'utf8')) as PeerConfig
}

/** Finds the client of an Authorization header; undefined: unknown. No key is kept, only digests. */
export function clientLookup({ clients }: PeerConfig) {
  const ids = new Map(clients.map(({ id, sha256 }) => [sha256, id]))
  return (authorization: string | undefined): string | undefined => {
    const key = /^Bearer (\S+)$/i.exec(authorization ?? '')?.[1]
    return ids.get(
      createHash('sha256')
        .update(key ?? '')
        .digest('hex'),
    )
  }
}

/** Listens on a free loopback port, says so, and ends with the bench. */
export function listen(name: string, server: Server): void {
  endWithBench()
  server.listen(0, '127.0.0.1', () => announce(name, server))
}

export function announce(name: string, server: Server): void {
  const { port } = server.address() as AddressInfo
  console.log(`${name} listening on http://127.0.0.1:${port}`)
}

export function endWithBench(): void {
  process.once('SIGTERM', () => process.exit(0))
  process.once('disconnect', () => process.exit(0))
}
