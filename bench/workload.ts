/** The requests every run sends: one path, 200 keys with quota to spare, 200 without, one without an end, and keys nobody knows. */
import { hash } from 'node:crypto'

export const requestPath = '/v1/pets?limit=20'
/** A body of 10 MiB: more than what the sockets between server and reader can hold. */
export const bigPath = '/v1/big'
export const bigBytes = 10 * 2 ** 20
export const connections = 64
export const keyCount = 200

/** Far above what the run can use, and of the order a large customer gets, so that leases are of ordinary size. */
export const ampleLimits = { perMinute: 60_000, perDay: 10_000_000 }
/** More than any run can use, by one client alone. */
export const boundlessLimits = { perMinute: 10_000_000, perDay: 10_000_000_000 }
/** Used up by the first request, until the end of the UTC day. */
export const exhaustedLimits = { perMinute: 1, perDay: 1 }

/** The answer of the backend: 200 bytes of JSON. */
export const backendBody = paddedPets(200)

export interface BenchClient {
  readonly id: string
  readonly key: string
  readonly sha256: string
}

export const ampleClients = benchClients('ample', keyCount)
export const exhaustedClients = benchClients('exhausted', keyCount)
export const [boundlessClient] = benchClients('boundless', 1) as [BenchClient]

/** Keys that no configuration knows; there are so many that none is met often. */
export const unknownKeys = Array.from({ length: connections * keyCount }, (_, index) =>
  keyFor(`unknown-${index}`),
)

/** Clients called `KIND-0`, `KIND-1` and so on, whose keys follow from their names. */
export function benchClients(kind: string, count: number): readonly BenchClient[] {
  return Array.from({ length: count }, (_, index) => {
    const id = `${kind}-${index}`
    const key = keyFor(id)
    return { id, key, sha256: hash('sha256', key) }
  })
}

function keyFor(seed: string): string {
  return `tg_${hash('sha256', seed).slice(0, 40)}`
}

function paddedPets(bytes: number): string {
  const pet = { id: 4711, name: 'Rex', status: 'available', tags: ['dog'], note: '' }
  const missing = bytes - Buffer.byteLength(JSON.stringify([pet]))
  return JSON.stringify([{ ...pet, note: 'x'.repeat(missing) }])
}
