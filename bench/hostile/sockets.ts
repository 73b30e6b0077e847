/** The socket that an attack is played from. */
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { AttackOrder } from './orders.ts'

/** Another address than the victim's, as another host would have. */
export const ADDRESS = '127.0.0.9'
const NEIGHBOUR = '127.0.0.1'

type From = Pick<AttackOrder, 'isNeighbour' | 'alpn'>

/** allowHalfOpen: the socket goes on sending when the server has sent its end. */
export function openSocket(
  port: number,
  allowHalfOpen = false,
  { isNeighbour = false, alpn }: From = {},
): Socket {
  const localAddress = isNeighbour ? NEIGHBOUR : ADDRESS
  const transport = connect({ host: '127.0.0.1', localAddress, noDelay: true, port, allowHalfOpen })
  // A close follows, which is what counts.
  const ignore = (): void => undefined
  transport.on('error', ignore)
  if (alpn === undefined) return transport
  const tls = { socket: transport, ALPNProtocols: [...alpn], rejectUnauthorized: false }
  return connectTls(tls).on('error', ignore)
}
