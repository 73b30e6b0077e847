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
  rawBackend,
  times,
  tollgate,
  withOrigins,
  type GatewayProcess,
} from './gateways.ts'

const KEY = 'tg_test_reload_0123456789abcdef'
const LIMIT = 1_000_000
const LATE = 'status 503'

export interface Reloading {
  readonly gateway: GatewayProcess
  readonly file: string
  /** Of the revision with this mark; more: blocks of its own. */
  text(mark: number, more?: Record<string, string>): string
  write(mark: number, more?: Record<string, string>): void
  /** Sends SIGHUP, and waits for what the log says of it. */
  hangUp(event: 'configTaken' | 'configRefused'): Promise<Record<string, unknown>>
  config(): Promise<{ reason: string; warning?: string }>
}

/** Of each revision the client has limits of its own, which all its answers must agree with. */
export async function reloading(
  workers: number,
  {
    options = [],
    place = (text) => temporaryFile('gateway.yaml', text),
  }: { options?: string[]; place?: (text: string) => string } = {},
): Promise<Reloading> {
  const backend = await rawBackend()
  const server = `server: { listen: "127.0.0.1:0", workers: ${workers}, timeouts: { drain: 1s } }`
  const text = (mark: number, more: Record<string, string> = {}) => {
    const [perMinute, perDay] = [LIMIT + mark, 10 * (LIMIT + mark)]
    const clients = clientsBlock([{ id: 'caller', keys: [KEY], perMinute, perDay }])
    const store = 'store: { file: "", timeout: 110ms }'
    // Lines of requests would be all that the log is read for.
    const log = 'log: { access: false }'
    const blocks = { server, clients, store, log, ...more }
    return configText({ upstreams: [backend.url], blocks })
  }
  const file = place(text(0))
  const gateway = await withOrigins(tollgate(['start', '--config', file, ...options]))
  return {
    gateway,
    file,
    text,
    write: (mark, more) => writeFileSync(file, text(mark, more)),
    async hangUp(event) {
      const before = gateway.logged(event).length
      gateway.signal('SIGHUP')
      await eventually(event, () => gateway.logged(event).length > before)
      return gateway.logged(event).at(-1) ?? {}
    },
    async config() {
      const { checks } = (await (await fetch(`${gateway.adminOrigin}/readyz`)).json()) as {
        checks: { name: string; reason: string; warning?: string }[]
      }
      return pick(
        checks.filter(({ name }) => name === 'config'),
        0,
      )
    },
  }
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

/** All marks that answers on as many new connections have. */
export async function marksOf(origin: string, count: number): Promise<Set<number>> {
  const decided = async (attempt = 0): Promise<number> =>
    ask(origin).catch(async (error: Error) => {
      if (error.message !== LATE || attempt > 40) throw error
      await sleep(250)
      return decided(attempt + 1)
    })
  return new Set(await Promise.all(times(count, () => decided())))
}
