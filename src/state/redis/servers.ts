/** Finds out what the settings or connections of a store's servers have against them. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { connect as connectTls, type ConnectionOptions } from 'node:tls'
import type { Cluster, Redis } from 'ioredis'
import type { HostPort } from '../../config/config.ts'
import { nameOf } from '../../config/hosts.ts'
import { isUnresolved, serverFault } from './faults.ts'

/** Describes the risks of all masters; undefined: there are none, or the servers may not be asked. Never rejects. */
export async function findRisks(client: Redis | Cluster): Promise<string | undefined> {
  const nodes = 'slots' in client ? client.nodes('master') : [client]
  const found = await Promise.all(nodes.map(risksOf)).catch(() => [])
  const risks = found.flat()
  return risks.length === 0 ? undefined : risks.join('; ')
}

async function risksOf(redis: Redis): Promise<string[]> {
  const [info, saves] = await Promise.all([
    redis.info(),
    // CONFIG is often forbidden, and absent from rented servers.
    redis.config('GET', 'save').catch(() => undefined),
  ])
  const field = (name: string): string | undefined =>
    new RegExp(`^${name}:(\\S*)`, 'm').exec(info)?.[1]
  const found: string[] = []
  const policy = field('maxmemory_policy') ?? 'noeviction'
  if (policy !== 'noeviction')
    found.push(`maxmemory-policy is ${policy}: counts may be evicted; set noeviction`)
  const hasSnapshots = Array.isArray(saves) ? saves[1] !== '' : field('rdb_saves') !== '0'
  if (field('aof_enabled') === '0' && !hasSnapshots)
    found.push('nothing is kept over a restart: counts begin anew; set appendonly yes')
  return found.map((risk) => `${nameOf(redis.options)}: ${risk}`)
}

const HANDSHAKE_MS = 500
/** A server may refuse our certificate only after the handshake has ended here (TLS 1.3). */
const QUIET_MS = 200

/**
 * Finds out, on a connection of its own, what the client library does not report: that a server refuses TLS, or does not speak
 * it. tls: as configured; undefined: none. Resolves with the fault; undefined: there is none, or it cannot be determined.
 */
export async function inspectServer(
  address: HostPort,
  tls: ConnectionOptions | undefined,
): Promise<unknown> {
  // Nothing is sent that would need a trusted peer.
  const socket = connectTls({ ...address, ...(tls ?? { rejectUnauthorized: false }) })
  socket.on('error', () => undefined)
  let isSecure = false
  const emitted = (event: string, ms: number): Promise<unknown> =>
    once(socket, event, { signal: AbortSignal.timeout(ms) })
  try {
    await emitted('secureConnect', HANDSHAKE_MS)
    isSecure = true
    if (tls === undefined) return serverFault('TLS_ONLY')
    await emitted('close', QUIET_MS)
  } catch (fault) {
    if (tls === undefined) return isUnresolved(fault) ? fault : undefined
    if (!(fault instanceof Error && fault.name === 'AbortError')) return fault
    if (!isSecure && (await answersPlainly(address))) return serverFault('NO_TLS')
  } finally {
    socket.destroy()
  }
  return undefined
}

/** A Redis without TLS waits for the end of a line when it gets the beginning of a handshake. */
async function answersPlainly(address: HostPort): Promise<boolean> {
  const socket = connect(address, () => socket.write('PING\r\n'))
  socket.on('error', () => undefined)
  const [reply] = await once(socket.setEncoding('latin1'), 'data', {
    signal: AbortSignal.timeout(HANDSHAKE_MS),
  }).catch(() => [''])
  socket.destroy()
  return /^[+-]/.test(String(reply))
}
