/** A running gateway takes another configuration whole, in all its processes, or not at all; and its clients notice nothing but that. */
import { Agent, request, type IncomingMessage } from 'node:http'
import { writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { configText } from '../support/gateway.ts'
import { temporaryFile } from '../support/processes.ts'
import {
  clientsBlock,
  endAll,
  eventually,
  gatewayProcess,
  pick,
  rawBackend,
  times,
  type GatewayProcess,
} from './gateways.ts'

afterAll(endAll)

const KEY = 'tg_test_reload_0123456789abcdef'
const LIMIT = 1_000_000
const LATE = 'status 503'

interface Reloading {
  readonly gateway: GatewayProcess
  readonly file: string
  /** The file of the revision with this mark; more: blocks of its own. */
  write(mark: number, more?: Record<string, string>): void
  /** Sends SIGHUP, and waits for what the log says of it. */
  hangUp(event: 'configTaken' | 'configRefused'): Promise<Record<string, unknown>>
  config(): Promise<{ reason: string; warning?: string }>
}

/** Of each revision the client has limits of its own, which all its answers must agree with. */
async function reloading(workers: number): Promise<Reloading> {
  const backend = await rawBackend()
  const server = `server: { listen: "127.0.0.1:0", workers: ${workers}, timeouts: { drain: 1s } }`
  const text = (mark: number, more: Record<string, string> = {}) => {
    const [perMinute, perDay] = [LIMIT + mark, 10 * (LIMIT + mark)]
    const clients = clientsBlock([{ id: 'caller', keys: [KEY], perMinute, perDay }])
    const store = 'store: { file: "", timeout: 110ms }'
    const blocks = { server, clients, store, ...more }
    return configText({ upstreams: [backend.url], blocks })
  }
  const file = temporaryFile('gateway.yaml', text(0))
  const gateway = await gatewayProcess(file)
  return {
    gateway,
    file,
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

interface Seen {
  readonly failures: string[]
  /** Marks of the revisions that answers belong to, in the order of their first. */
  readonly marks: Set<number>
  /** 503: the store was late, as it is on a machine whose every core is busy; see `decided`. */
  late: number
  answers: number
  connections: number
}

/** Calls on connections that are kept, until stopped. */
function keptConnections(origin: string, callers: number) {
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
      await sleep(2)
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
async function marksOf(origin: string, count: number): Promise<Set<number>> {
  const decided = async (attempt = 0): Promise<number> =>
    ask(origin).catch(async (error: Error) => {
      if (error.message !== LATE || attempt > 40) throw error
      await sleep(250)
      return decided(attempt + 1)
    })
  return new Set(await Promise.all(times(count, () => decided())))
}

describe.concurrent.each([1, 4])('a reload of %i workers under load', (workers) => {
  it('fails no request, closes no connection and never shows what it refuses', async () => {
    const { gateway, file, write, hangUp, config } = await reloading(workers)
    const load = keptConnections(gateway.origin, 8)
    await eventually('answers', () => load.seen.answers > 8)
    for (const mark of times(12, (at) => at + 1)) {
      const refused = mark % 3 === 0
      if (refused) writeFileSync(file, 'plans: nonsense')
      else if (mark % 3 === 1) write(mark)
      const line = await hangUp(refused ? 'configRefused' : 'configTaken')
      expect(line['problems'] !== undefined).toBe(refused)
      if (!refused) expect((await config()).reason).toBe(`revision ${String(line['revision'])}`)
      expect((await config()).warning !== undefined).toBe(refused)
      await sleep(200)
    }
    const { failures, marks, answers, late, connections } = await load.stop()
    expect(failures).toEqual([])
    expect(late).toBeLessThan(answers / 4)
    expect(connections).toBe(8)
    expect(answers).toBeGreaterThan(100)
    expect([...marks]).toEqual([0, 1, 4, 7, 10])
    expect(await marksOf(gateway.origin, 20)).toEqual(new Set([10]))
    expect(await gateway.metric('tollgate_config_reloads_total{outcome="taken"}')).toBe(8)
    expect(await gateway.metric('tollgate_config_reloads_total{outcome="refused"}')).toBe(4)
    expect(await gateway.metric('tollgate_config_last_reload_successful')).toBe(0)
  })
})

describe.concurrent('a reload', () => {
  it('is refused whole, each key named, where some of it needs a restart', async () => {
    const { gateway, write, hangUp, config } = await reloading(1)
    write(1, {
      admin: 'admin: { listen: "127.0.0.1:1" }',
      store: 'store: { file: "", timeout: 90ms }',
    })
    const problems = ['admin.listen', 'store.timeout'].map(
      (key) => `${key}: needs a restart; put it back as it was, or restart the gateway`,
    )
    expect(await hangUp('configRefused')).toMatchObject({ level: 'error', problems })
    expect(await config()).toMatchObject({
      ok: true,
      warning: `a reload was refused: ${problems[0]}, and 1 more`,
    })
    expect(await marksOf(gateway.origin, 1)).toEqual(new Set([0]))
    write(1)
    expect(await hangUp('configTaken')).toMatchObject({
      blastRadius: {
        counts: { 'limits.raised': 1 },
        limits: { raised: [{ client: 'caller' }], lowered: [] },
      },
    })
    expect(await config()).not.toHaveProperty('warning')
    expect(await marksOf(gateway.origin, 1)).toEqual(new Set([1]))
  })
})
