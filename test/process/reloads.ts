/** Gateways whose configuration is changed while clients call, and what those see of it. */
import { writeFileSync } from 'node:fs'
import { expect } from 'vitest'
import { configText } from '../support/gateway.ts'
import { temporaryFile } from '../support/processes.ts'
import { ask, type WorkerAnswer } from '../server/workers/workers.ts'
import { clientsBlock, decided, eventually, startRawBackend, times } from './gateways.ts'
import { startTollgate, withOrigins, type GatewayProcess, gatewayHere } from './gateways.ts'

export const KEY = 'tg_test_reload_0123456789abcdef'
/** A minute, of the first revision. */
export const LIMIT = 1_000_000

const LATE = /^worker \d: (?:has not answered for|has ended)/

type Blocks = Record<string, string>

/** Of each revision the client has limits of its own, which all its answers must agree with. */
async function revisions(workers: number, place = inFolder) {
  const backend = await startRawBackend()
  const server = `server: { listen: "127.0.0.1:0", workers: ${workers}, timeouts: { drain: 1s } }`
  const text = (mark: number, more: Blocks = {}) => {
    const [perMinute, perDay] = [LIMIT + mark, 10 * (LIMIT + mark)]
    const clients = clientsBlock([{ id: 'caller', keys: [KEY], perMinute, perDay }])
    const store = 'store: { file: "", timeout: 110ms }'
    // Lines of requests would be all that the log is read for.
    const log = 'log: { access: false }'
    const blocks = { server, clients, store, log, ...more }
    return configText({ upstreams: [backend.url], blocks })
  }
  const file = place(text(0))
  return {
    file,
    text,
    write: (mark: number, more?: Blocks) => writeFileSync(file, text(mark, more)),
  }
}
const inFolder = (text: string): string => temporaryFile('gateway.yaml', text)

/** How it is told to reload, and what its log says of that. */
const telling = ({ logged }: Pick<GatewayProcess, 'logged'>, reload: () => unknown) => ({
  async hangUp(event: 'configTaken' | 'configRefused'): Promise<Record<string, unknown>> {
    const before = logged(event).length
    const late = () =>
      logged('configRefused').filter(({ problems }) => LATE.test(String(problems))).length
    let seen = late()
    // Of one in this process the end is known, however long a busy machine takes.
    await reload()
    await eventually(event, () => {
      if (logged(event).length > before) return true
      // Not all workers of a busy machine may have prepared in time: once more, then.
      if (late() > seen) {
        seen = late()
        void reload()
      }
      return false
    })
    return logged(event).at(-1) ?? {}
  },
})

export async function reloading(
  workers: number,
  { options = [], place }: { options?: string[]; place?: (text: string) => string } = {},
) {
  const revised = await revisions(workers, place)
  const gateway = await withOrigins(startTollgate(['start', '--config', revised.file, ...options]))
  return { gateway, ...revised, ...telling(gateway, () => gateway.signal('SIGHUP')) }
}

/** In this process. */
export async function reloadingHere() {
  const revised = await revisions(1)
  const gateway = await gatewayHere(revised.file)
  return { gateway, ...revised, ...telling(gateway, () => gateway.reload()) }
}

/** One that was decided without the store has no limits. */
export const tellsMark = ({ headers }: WorkerAnswer): boolean =>
  headers['ratelimit-policy'] !== undefined

/** Which revision all limits in the answer belong to. */
export function markOf({ status, headers }: WorkerAnswer): number {
  const limit = Number(headers['x-ratelimit-limit'])
  const policy = `"minute";q=${limit};w=60, "day";q=${10 * limit};w=86400`
  expect([status, headers['ratelimit-policy']]).toEqual([200, policy])
  return limit - LIMIT
}

/** All marks that answers on as many new connections have. A worker that stood still may have been killed for it, with what it had accepted. */
export async function marksOf(origin: string, count: number): Promise<Set<number>> {
  const answered = async (): Promise<number> => {
    let answer: WorkerAnswer | undefined
    await eventually('an answer', async () => {
      answer = await decided(() => ask(origin, { key: KEY })).catch(
        (error: NodeJS.ErrnoException) => {
          if (error.code !== 'ECONNRESET') throw error
          return undefined
        },
      )
      return answer !== undefined && tellsMark(answer)
    })
    return answer === undefined ? NaN : markOf(answer)
  }
  return new Set(await Promise.all(times(count, answered)))
}
