/** The totals of days against what a backend has counted, over outages, restarts and crashes of whoever counts. */
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import type { ClientUsage, DayUsage } from '../../src/api/usage.ts'
import { dayWithAtLeast } from '../support/utc-windows.ts'
import { configText, sha256 } from '../support/gateway.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import type { RawBackend } from '../support/raw-backend.ts'
import { workerPids } from '../workers/workers.ts'
import {
  clientsBlock,
  configFile,
  decided,
  endAll,
  eventually,
  gatewayProcess,
  rawBackend,
  redisServer,
  times,
  type GatewayProcess,
} from './gateways.ts'

afterAll(endAll)

const names = ['acme', 'bolt', 'rook']
const clients = [
  ...names.map((id) => ({ id, keys: [`tg_${id}`], perMinute: 1_000_000 })),
  { id: 'few', keys: ['tg_few'], perMinute: 5 },
]

type Counts = Record<string, number>

const seenBy = ({ requests }: RawBackend): Counts => {
  const counts: Counts = {}
  for (const request of requests) {
    const client = request.header('x-client-id') ?? ''
    counts[client] = (counts[client] ?? 0) + 1
  }
  return counts
}

/** undefined: it says that it cannot know, or breaks off. */
async function today(gateway: GatewayProcess): Promise<DayUsage | undefined> {
  const answer = await fetch(`${gateway.adminOrigin}/api/usage`)
  return answer.ok
    ? ((await answer.json().catch(() => undefined)) as DayUsage | undefined)
    : undefined
}

async function admitted(gateway: GatewayProcess): Promise<Counts> {
  const told = (await today(gateway))?.clients ?? []
  return Object.fromEntries(
    told.filter((one) => one.admitted !== 0).map((one) => [one.client, one.admitted]),
  )
}

/** Until what is told is exactly what the backend has counted. */
const exact = (gateway: GatewayProcess, backend: RawBackend): Promise<number> =>
  eventually(`${gateway.origin} tells what the backend has counted`, async () => {
    const [told, seen] = [await admitted(gateway), seenBy(backend)]
    return [...Object.keys(told), ...names].every((client) => told[client] === seen[client])
  })

/** All clients ask all gateways again and again until it is ended; what came of it. */
function load(gateways: readonly GatewayProcess[]) {
  const answers: {
    readonly client: string
    readonly code: string | undefined
    readonly endedMs: number
  }[] = []
  const over = new AbortController()
  const caller = async (gateway: GatewayProcess, client: string): Promise<void> => {
    while (!over.signal.aborted) {
      const answer = await gateway.call(`tg_${client}`).catch(() => undefined)
      answers.push({ client, code: answer?.code, endedMs: performance.now() })
      await sleep(20)
    }
  }
  const callers = gateways.flatMap((gateway) => clients.map(({ id }) => caller(gateway, id)))
  return {
    answers,
    end: async () => {
      over.abort()
      await Promise.all(callers)
    },
  }
}

const isLimited = ({ code }: { readonly code: string | undefined }): boolean =>
  code === 'rate_limit_exceeded'

/** A body that breaks off before a backend has seen anything of its request: charged, and handed back. */
async function breakOff(gateway: GatewayProcess): Promise<void> {
  const socket = connect(Number(new URL(gateway.origin).port), '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(
    'POST /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer tg_acme\r\nContent-Length: 99\r\n\r\nhalf',
  )
  await sleep(50)
  socket.destroy()
}

const served = (workers: number): string =>
  `server: { listen: "127.0.0.1:0", workers: ${workers}, overload: { lag: 10s } }`

describe.concurrent('the totals of a day', () => {
  it('are what the backend has counted of three gateways on one Redis that freezes, and but for its latest second of a worker that is killed', async () => {
    await dayWithAtLeast(90_000)
    const [redis, backend] = await Promise.all([redisServer(), rawBackend()])
    const fileFor = (workers: number): string =>
      configFile(backend.url, {
        server: served(workers),
        store: `store: { redis: "${redis.url}", timeout: 110ms, onOutage: local }`,
        bans: 'bans: { grace: 1m }',
        clients: clientsBlock(clients),
      })
    const gateways = await Promise.all([2, 1, 1].map((workers) => gatewayProcess(fileFor(workers))))
    const [first, second, third] = gateways
    if (first === undefined || second === undefined || third === undefined) throw new Error('three')

    const all = load(gateways)
    await sleep(500)
    await Promise.all(gateways.map(breakOff))
    redis.freeze()
    await eventually('it is away', async () => (await today(first)) === undefined)
    await sleep(600)
    redis.thaw()
    await eventually('it is back', async () => (await today(first)) !== undefined)
    await eventually('one is limited', () => all.answers.some(isLimited))
    await all.end()
    // What they have not written by now they write at their end.
    for (const gateway of [second, third]) gateway.signal('SIGTERM')
    for (const gateway of [second, third]) expect((await gateway.finished).code).toBe(0)
    await exact(first, backend)
    const limited = all.answers.filter(isLimited).length
    await eventually('refusals, too', async () => {
      const few = (await today(first))?.clients.find(({ client }) => client === 'few')
      return JSON.stringify(few?.refused) === JSON.stringify({ minute: limited, day: 0, ban: 0 })
    })
    expect(first.logged('usageDropped')).toEqual([])

    const base = await admitted(first)
    const more = load([first])
    await eventually('some of it is written', async () => {
      const told = await admitted(first)
      return names.every((client) => (told[client] ?? 0) > (base[client] ?? 0) + 5)
    })
    const before = await admitted(first)
    const [[number, pid] = [0, 0]] = workerPids(first)
    process.kill(pid, 'SIGKILL')
    const killedMs = performance.now()
    await eventually('another in its place', () => workerPids(first).get(number) !== pid)
    await sleep(300)
    await more.end()
    const told = await settled(first)
    const seen = seenBy(backend)
    for (const client of names) {
      const late = more.answers.filter(
        (one) => one.client === client && Math.abs(one.endedMs - killedMs) < 5_000,
      )
      expect(told[client], client).toBeLessThanOrEqual(seen[client] ?? 0)
      expect(told[client], client).toBeGreaterThanOrEqual((seen[client] ?? 0) - late.length - 1)
      expect(told[client], client).toBeGreaterThanOrEqual(before[client] ?? 0)
    }
    // From here on it is exact again.
    await Promise.all(times(30, () => first.call('tg_acme')))
    await eventually(
      'thirty more',
      async () => (await admitted(first))['acme'] === (told['acme'] ?? 0) + 30,
    )
  })

  it('are in store.file over a stop, and over a crash but for the latest seconds', async () => {
    await dayWithAtLeast(90_000)
    const backend = await rawBackend()
    const file = configFile(backend.url, {
      server: served(2),
      store: `store: { file: "${temporaryFolder()}/store.db" }`,
      clients: clientsBlock(clients),
    })
    const stopped = await gatewayProcess(file)
    const ask = (gateway: GatewayProcess) =>
      Promise.all(times(40, () => decided(() => gateway.call('tg_acme'))))
    await ask(stopped)
    stopped.signal('SIGTERM')
    expect((await stopped.finished).code).toBe(0)
    const crashed = await gatewayProcess(file)
    expect(await admitted(crashed)).toEqual({ acme: 40 })
    await ask(crashed)
    await exact(crashed, backend)
    expect(seenBy(backend)).toEqual({ acme: 80 })
    await ask(crashed)
    crashed.signal('SIGKILL')
    await crashed.finished
    const again = await gatewayProcess(file)
    const { acme = 0 } = await admitted(again)
    expect(acme).toBeGreaterThanOrEqual(80)
    expect(acme).toBeLessThanOrEqual(120)
    expect(seenBy(backend)).toEqual({ acme: 120 })
  })

  it.each([
    ['store.file', () => `store: { file: "${temporaryFolder()}/store.db" }`],
    ['Redis', async () => `store: { redis: "${(await redisServer()).url}", timeout: 110ms }`],
  ])(
    'has a row for each plan that a client had, also after a restart (%s)',
    async (_, storeBlock) => {
      await dayWithAtLeast(90_000)
      const backend = await rawBackend()
      const store = await storeBlock()
      const textWith = (plan: string): string => {
        const key = `{ id: mover-1, sha256: ${sha256('tg_mover')} }`
        const mover = `clients: [{ id: mover, plan: ${plan}, keys: [${key}] }]`
        const blocks = { server: served(2), store, clients: mover }
        return configText({ upstreams: [backend.url], blocks })
      }
      const file = temporaryFile('gateway.yaml', textWith('pro'))
      const gateway = await gatewayProcess(file)
      const asked = { pro: 0, business: 0 }
      const askUntil = async (plan: keyof typeof asked, requests: number) => {
        while (asked[plan] < requests) {
          const { headers, status } = await decided(() => gateway.call('tg_mover'))
          expect(status).toBe(200)
          // A worker may take the new configuration a moment after the log says so.
          asked[headers.get('x-ratelimit-limit') === '300' ? 'pro' : 'business']++
        }
      }
      await askUntil('pro', 5)
      await eventually('they are kept', async () => (await admitted(gateway))['mover'] === 5)
      writeFileSync(file, textWith('business'))
      gateway.signal('SIGHUP')
      await eventually('the reload', () => gateway.logged('configTaken').length === 2)
      await askUntil('business', 7)
      const none = { minute: 0, day: 0, ban: 0 }
      const plans = Object.entries(asked).map(([plan, admitted]) => ({
        plan,
        admitted,
        refused: none,
      }))
      const shown = async (from: GatewayProcess) => {
        const answer = await fetch(`${from.adminOrigin}/api/clients/mover/usage`)
        const { days } = (await answer.json()) as ClientUsage
        return { days, all: (await today(from))?.clients }
      }
      const wanted = {
        days: [{ day: iso(), plan: 'pro', admitted: asked.pro + 7, refused: none, plans }],
        all: plans.map((one) => ({ client: 'mover', ...one })),
      }
      await expect.poll(() => shown(gateway), { timeout: 30_000 }).toEqual(wanted)
      gateway.signal('SIGTERM')
      expect((await gateway.finished).code).toBe(0)
      expect(await shown(await gatewayProcess(file))).toEqual(wanted)
    },
  )
})

const iso = (): string => new Date().toISOString().slice(0, 10)

/** When it has not changed for more than a second. */
async function settled(gateway: GatewayProcess): Promise<Counts> {
  let [counts, told] = [{} as Counts, await admitted(gateway)]
  while (JSON.stringify(counts) !== JSON.stringify(told)) {
    await sleep(1_200)
    ;[counts, told] = [told, await admitted(gateway)]
  }
  return told
}
