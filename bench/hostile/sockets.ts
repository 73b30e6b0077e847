/** The sockets that attacks are played from. */
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { openSocket as openFrom, type SocketOptions } from '../wire.ts'
import type { AttackOrder } from './orders.ts'

/** Another address than the victim's, as another host would have. */
export const ADDRESS = '127.0.0.9'

type From = Pick<AttackOrder, 'isNeighbour' | 'alpn'> & Pick<SocketOptions, 'allowHalfOpen'>

/** Its errors say nothing: a close follows, which is what counts. */
export function openSocket(port: number, { isNeighbour = false, ...from }: From = {}): Socket {
  const socket = openFrom(port, isNeighbour ? from : { ...from, localAddress: ADDRESS })
  return socket.on('error', () => undefined)
}

/** Resolves when it happens to a socket, whatever errors come before. */
export const happens = (socket: Socket, event: 'close' | 'secureConnect'): Promise<void> =>
  new Promise((resolve) => socket.once(event, () => resolve()))

/** Keeps so many sockets open for the time of the attack: whichever closes is opened again. Says what became of them. */
export async function keepOpen(
  order: AttackOrder,
  { pauseMs = 0, allowHalfOpen = false }: { pauseMs?: number; allowHalfOpen?: boolean },
  play: (socket: Socket, nth: number) => void,
): Promise<{ held: number; 'thrown out': number; connections: number }> {
  const open = new Set<Socket>()
  const count = { connections: 0, 'thrown out': 0 }
  let isOver = false
  const begin = (): void => {
    if (isOver) return
    const socket = openSocket(order.port, { ...order, allowHalfOpen })
    open.add(socket)
    if (!allowHalfOpen) socket.once('end', () => socket.destroy())
    socket.once('close', () => {
      open.delete(socket)
      if (!isOver) count['thrown out'] += 1
      if (pauseMs > 0) setTimeout(begin, pauseMs)
      else setImmediate(begin)
    })
    play(socket, count.connections++)
  }
  for (let nth = 0; nth < order.connections; nth++) begin()
  await sleep(order.ms)
  isOver = true
  const held = open.size
  for (const socket of open) socket.destroy()
  return { ...count, held }
}

/** Heads of answers that begin in these bytes; one cut by the edge of a packet is missed. */
export function answersIn(data: Buffer): number {
  let count = 0
  for (let at = data.indexOf('HTTP/1.1 '); at >= 0; at = data.indexOf('HTTP/1.1 ', at + 1))
    count += 1
  return count
}
