/** Finds out, on a connection of its own, what the client library does not report: that a server refuses TLS, or does not speak it. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { connect as connectTls, type ConnectionOptions } from 'node:tls'
import type { HostPort } from '../../config/config.ts'
import { isUnresolved, serverFault } from './faults.ts'

const HANDSHAKE_MS = 500
/** A server may refuse our certificate only after the handshake has ended here (TLS 1.3). */
const QUIET_MS = 200

/** tls: as configured; undefined: none. Resolves with the fault; undefined: there is none, or it cannot be determined. */
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
