/** One client connection, played as it was drawn: what was heard on it, and whether it came to its end in time. */
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { openRawClient, type RawExchange } from '../support/raw-client.ts'
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
  const tooLate = sleep(limitMs, true, { ref: false })
  const client = await openRawClient(port)
  const { socket } = client
  const isClosed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  socket.on('end', () => socket.end())
  for (const step of steps) {
    if (socket.destroyed || socket.writableEnded) break
    if (typeof step === 'string') client.send(step)
    else if (step < 0) await sleep(-step)
    else for (let turns = 0; turns < step; turns++) await turn()
  }
  if (ending === 'leaves') socket.write('', client.destroy)
  else if (ending === 'halfClose') client.end()
  else {
    const hasHeard = ({ raw, closed }: RawExchange): boolean => closed || enough(raw)
    await client.waitFor(hasHeard, limitMs).then(goesAway ? client.destroy : client.end, () => {})
  }
  const late = await Promise.race([isClosed.then(() => false), tooLate])
  client.destroy()
  return { raw: client.received().raw, late }
}
