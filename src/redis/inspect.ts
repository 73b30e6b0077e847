/** Asks a server, on a connection of its own, what the client library does not tell: its refusal of TLS, or that it speaks none. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { connect as connectTls, type ConnectionOptions } from 'node:tls'
import type { HostPort } from '../config/config.ts'
import { ServerFault } from './faults.ts'

const HANDSHAKE_MS = 500
/** A server may refuse our certificate only after the handshake has ended here (TLS 1.3). */
const QUIET_MS = 200

/** tls: as configured, undefined for none. Resolves with what is wrong, undefined if nothing is or it cannot be told. */
export async function inspectServer(
  address: HostPort,
  tls: ConnectionOptions | undefined,
): Promise<unknown> {
  // Nothing is sent that would need a trusted peer.
  const socket = connectTls({ ...address, ...(tls ?? { rejectUnauthorized: false }) })
  socket.on('error', () => undefined)
  let isSecure = false
  try {
    await once(socket, 'secureConnect', { signal: AbortSignal.timeout(HANDSHAKE_MS) })
    isSecure = true
    if (tls === undefined) return new ServerFault('TLS_ONLY')
    await once(socket, 'close', { signal: AbortSignal.timeout(QUIET_MS) })
    return undefined
  } catch (fault) {
    const isSilent = fault instanceof Error && fault.name === 'AbortError'
    if (tls === undefined) return undefined
    if (!isSilent) return fault
    return !isSecure && (await answersPlainly(address)) ? new ServerFault('NO_TLS') : undefined
  } finally {
    socket.destroy()
  }
}

/** A Redis without TLS waits for the end of a line when it gets the beginning of a handshake. */
async function answersPlainly(address: HostPort): Promise<boolean> {
  const socket = connect(address, () => socket.write('PING\r\n'))
  socket.on('error', () => undefined)
  try {
    const [reply] = (await once(socket, 'data', {
      signal: AbortSignal.timeout(HANDSHAKE_MS),
    })) as [Buffer]
    return /^[+-]/.test(reply.toString('latin1', 0, 1))
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}
