/** One client connection, played as it was drawn: what was heard on it, and whether it came to its end in time. */
import { connect } from 'node:net'
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import type { Conversation } from './client-grammar.ts'

export interface Heard {
  readonly raw: Buffer
  /** Whatever the client did, the gateway did not close the connection in time. */
  readonly late: boolean
}

/** enough: the client has heard all that it waits for, and ends its side, or goes away altogether. */
export async function converse(
  port: number,
  { steps, ending }: Pick<Conversation, 'steps' | 'ending'>,
  {
    enough,
    limitMs,
    goesAway,
  }: { enough: (raw: Buffer) => boolean; limitMs: number; goesAway: boolean },
): Promise<Heard> {
  let raw: Buffer = Buffer.alloc(0)
  let isSent = false
  let late = false
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
  const look = (): void => {
    if (!isSent || ending !== 'patient' || !enough(raw)) return
    if (goesAway) socket.destroy()
    else socket.end()
  }
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.on('data', (chunk: Buffer) => {
    raw = raw.length === 0 ? chunk : Buffer.concat([raw, chunk])
    look()
  })
  socket.on('end', () => socket.end())
  socket.on('error', () => {})
  const timer = setTimeout(() => {
    late = true
    socket.destroy()
  }, limitMs)
  for (const step of steps) {
    if (socket.destroyed || socket.writableEnded) break
    if (typeof step === 'string') socket.write(step, 'latin1')
    else if (step < 0) await sleep(-step)
    else for (let turns = 0; turns < step; turns++) await turn()
  }
  isSent = true
  if (ending === 'halfClose') socket.end()
  else if (ending === 'leaves') socket.write('', () => socket.destroy())
  else look()
  await closed
  clearTimeout(timer)
  return { raw, late }
}
