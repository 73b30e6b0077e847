/** Gateways whose configuration is changed while clients call, and what those see of it. */
import { Agent, request, type IncomingMessage } from 'node:http'
import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { configText } from '../support/gateway.ts'
import { temporaryFile } from '../support/processes.ts'
import {
  clientsBlock,
  eventually,
  pick,
  startRawBackend,
  times,
  startTollgate,
  withOrigins,
  type GatewayProcess,
  gatewayHere,
} from './gateways.ts'

const KEY = 'tg_test_reload_0123456789abcdef'
/** A minute, of the first revision. */
export const LIMIT = 1_000_000
const LATE = 'status 503'

type Blocks = Record<string, string>
type Started = Pick<GatewayProcess, 'adminOrigin' | 'logged'>

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

/** How it is told to reload, what its log says of that, and its readiness. */
const telling = ({ adminOrigin, logged }: Started, reload: () => unknown) => ({
  async hangUp(event: 'configTaken' | 'configRefused'): Promise<Record<string, unknown>> {
    const before = logged(event).length
    reload()
    await eventually(event, () => logged(event).length > before)
    return logged(event).at(-1) ?? {}
  },
  async config(): Promise<{ reason: string; warning?: string }> {
    const { checks } = (await (await fetch(`${adminOrigin}/readyz`)).json()) as {
      checks: { name: string; reason: string; warning?: string }[]
    }
    return pick(
      checks.filter(({ name }) => name === 'config'),
      0,
    )
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
  return { gateway, ...revised, ...telling(gateway, () => void gateway.reload()) }
}

export interface Seen {
  readonly failures: string[]
  /** Marks of the revisions that answers belong to, in the order of their first. */
  readonly marks: Set<number>
  /** 503: the store was late, as it is on a machine whose every core is busy; see `decided`. */
  late: number
  answers: number
  connections: number
}

/** Calls on connections that are kept, until stopped. */
export function keptConnections(origin: string, callers: number) {
  const seen: Seen = { failures: [], marks: new Set(), late: 0, answers: 0, connections: 0 }
  const over = new AbortController()
  const caller = async (): Promise<void> => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 })
    const connect = agent.createConnection.bind(agent)
    agent.createConnection = (...args) => (seen.connections++, connect(...args))
    while (!over.signal.aborted) {
      await ask(origin, agent).then(
        (mark) => seen.marks.add(mark),
        ({ message }: Error) => {
          if (message === LATE) seen.late++
          else seen.failures.push(message)
        },
      )
      seen.answers++
      await sleep(12)
    }
    agent.destroy()
  }
  const all = times(callers, caller)
  return {
    seen,
    async stop(): Promise<Seen> {
      over.abort()
      await Promise.all(all)
      return seen
    },
  }
}

/** Resolves with the mark that all limits in the answer agree upon; rejects if it is none of 200, or they do not. */
function ask(origin: string, agent?: Agent): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${KEY}` }
    const call = request(`${origin}/v1/pets`, { headers, agent: agent ?? false }, (answer) => {
      answer.on('error', reject).on('end', () => {
        const fault = faultOf(answer)
        if (fault === undefined) resolve(Number(answer.headers['x-ratelimit-limit']) - LIMIT)
        else reject(new Error(fault))
      })
      answer.resume()
    })
    call.on('error', reject)
    call.end()
  })
}

function faultOf({ statusCode, headers }: IncomingMessage): string | undefined {
  const limit = Number(headers['x-ratelimit-limit'])
  const policy = `"minute";q=${limit};w=60, "day";q=${10 * limit};w=86400`
  if (statusCode !== 200) return `status ${statusCode}`
  return headers['ratelimit-policy'] === policy ? undefined : JSON.stringify(headers)
}

/** All marks that answers on as many new connections have. A worker that stood still may have been killed for it, with what it had accepted. */
export async function marksOf(origin: string, count: number): Promise<Set<number>> {
  const decided = async (attempt = 0): Promise<number> =>
    ask(origin).catch(async (error: NodeJS.ErrnoException) => {
      const isLost = error.message === LATE || error.code === 'ECONNRESET'
      if (!isLost || attempt > 40) throw error
      await sleep(250)
      return decided(attempt + 1)
    })
  return new Set(await Promise.all(times(count, () => decided())))
}
