/** Who makes it hard for others. Each resolves when all is answered or left. */
import { setMaxListeners } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { pick, times } from '../process/gateways.ts'
import type { Callers } from './callers.ts'
import type { Place } from './world.ts'

export type Crowd = ReturnType<typeof createCrowd>

const FLOODERS = 4
const BURST = 32
const SENDERS = 40
const READERS = 12

export function createCrowd(places: readonly Place[], { call }: Callers, client: string) {
  const flooded = new Map<string, number>()
  const burst =
    'GET /v1/pets HTTP/1.1\r\nHost: chaos\r\nAuthorization: Bearer tg_wrong\r\n\r\n'.repeat(BURST)

  /** One connection until it ends, or the time is over. */
  const floodOnce = (origin: string, untilMs: number): Promise<void> =>
    new Promise((resolve) => {
      const socket = connect(Number(new URL(origin).port), '127.0.0.1')
      const write = (): void => {
        while (Date.now() < untilMs && !socket.destroyed) if (!socket.write(burst)) return
        socket.destroy()
      }
      const timer = setTimeout(() => socket.destroy(), untilMs - Date.now())
      socket.setEncoding('latin1')
      socket
        .on('connect', write)
        .on('drain', write)
        .on('error', () => undefined)
      let rest = ''
      socket.on('data', (text: string) => {
        const lines = (rest + text).split('\r\n')
        rest = lines.pop() ?? ''
        for (const line of lines) {
          const status = /HTTP\/1\.1 (\d+)/.exec(line)?.[1]
          if (status !== undefined) flooded.set(status, (flooded.get(status) ?? 0) + 1)
        }
      })
      socket.on('close', () => {
        clearTimeout(timer)
        resolve()
      })
    })

  return {
    /** Answers to the flood, by status. */
    flooded,
    /** Requests with a wrong key, without end, in pipelines. */
    flood: async (forMs: number): Promise<void> => {
      const untilMs = Date.now() + forMs
      const floodOn = async (at: number): Promise<void> => {
        while (Date.now() < untilMs) {
          const origins = places.flatMap(({ gateway }) => gateway?.origin ?? [])
          await floodOnce(pick(origins, at), untilMs)
          await sleep(10)
        }
      }
      await Promise.all(times(FLOODERS, floodOn))
    },
    /** One client's many calls that send, or read, as slowly as they may; some leave in the middle. */
    slow: async (forMs: number): Promise<void> => {
      const over = new AbortController()
      const leaving = over.signal
      setMaxListeners(SENDERS + READERS, leaving)
      const senders = times(SENDERS, (at) =>
        // Every other one has sent all shortly before, the others leave.
        call(
          client,
          { sends: 4_096, gets: 64 },
          { sendEveryMs: (forMs / 16) * (at % 2 === 0 ? 0.5 : 1.2), leaving },
        ),
      )
      const readers = times(READERS, () =>
        call(client, { sends: 0, gets: 3_000_000 }, { readEveryMs: forMs / 60, leaving }),
      )
      await sleep(forMs)
      over.abort()
      await Promise.all([...senders, ...readers])
    },
  }
}
