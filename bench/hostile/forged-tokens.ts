/** The attack of somebody who makes up tokens: their claims are in order, their signatures are random, and their key ids too where the order says so. */
import { randomBytes, randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { AttackOrder, AttackOutcome } from './orders.ts'
import { openSocket } from './sockets.ts'

/** Stands in the head of the order where the token goes. */
export const TOKEN = '<token>'

const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

function forge({ alg, claims, kid }: NonNullable<AttackOrder['forged']>): string {
  const signature = randomBytes(132)
  // Both numbers of an ES512 signature have 521 bits in 66 bytes; greater ones are refused without any arithmetic.
  signature[0] = signature[66] = 0
  const header = { alg, kid: kid ?? randomUUID() }
  return `${encode(header)}.${encode({ ...claims, jti: randomUUID() })}.${signature.toString('base64url')}`
}

/** Sends at most so many a second as `times` says, over all connections; each waits for its answer. */
export async function forgedTokens(order: AttackOrder): Promise<AttackOutcome> {
  const { port, ms, head, connections, forged, times = 0 } = order
  if (forged === undefined) throw new Error('no token to forge')
  const outcome: Record<string, number> = {}
  const endMs = performance.now() + ms
  const isOver = sleep(ms, undefined)
  const lane = async (): Promise<void> => {
    let socket = openSocket(port)
    let dueMs = performance.now()
    while (performance.now() < endMs) {
      await sleep(Math.max(dueMs - performance.now(), 0))
      dueMs = Math.max(dueMs + (1_000 * connections) / times, performance.now())
      if (socket.destroyed) socket = openSocket(port)
      socket.write(head.replace(TOKEN, forge(forged)))
      const status = await Promise.race([answerOn(socket), isOver])
      if (status === undefined) break
      outcome[status] = (outcome[status] ?? 0) + 1
    }
    socket.destroy()
  }
  await Promise.all(Array.from({ length: connections }, lane))
  return outcome
}

/** The status of the next answer, once all of it has come. */
function answerOn(socket: Socket): Promise<string> {
  return new Promise((resolve) => {
    let text = ''
    const end = (status: string): void => {
      socket.off('data', read).off('close', ended)
      resolve(status)
    }
    const ended = (): void => end('closed')
    const read = (data: Buffer): void => {
      text += data.toString('latin1')
      const bodyAt = text.indexOf('\r\n\r\n') + 4
      const length = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1])
      if (bodyAt < 4 || text.length < bodyAt + length) return
      if (/\r\nconnection: close/i.test(text)) socket.destroy()
      end(text.slice(9, 12))
    }
    socket.on('data', read).on('close', ended)
  })
}
