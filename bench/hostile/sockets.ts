/** The socket that an attack is played from. */
import { connect, type Socket } from 'node:net'

/** Another address than the victim's, as another host would have. */
export const ADDRESS = '127.0.0.9'

/** allowHalfOpen: the socket goes on sending when the server has sent its end. */
export function openSocket(port: number, allowHalfOpen = false): Socket {
  const options = { host: '127.0.0.1', localAddress: ADDRESS, noDelay: true }
  const socket = connect({ ...options, port, allowHalfOpen })
  // A close follows, which is what counts.
  return socket.on('error', () => undefined)
}
