/** The totals of days against what a backend has counted, over outages, restarts and crashes of whoever counts. */
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { usageCommand } from '../../src/cli/operator/usage.ts'
import type { ClientUsage, DayUsage } from '../../src/admin/usage/operations.ts'
import { dayWithAtLeast } from '../support/utc-windows.ts'
import { configText, sha256 } from '../support/gateway.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'
import type { RawBackend } from '../support/raw-backend.ts'
import { sharedRedis } from '../support/redis-server.ts'
import { workerPids } from '../server/workers/workers.ts'
import {
  again,
  clientsBlock,
  configFile,
  decided,
  eventually,
  gatewayHere,
  gatewayProcess,
  pick,
  startRawBackend,
  startRedisServer,
  storeOn,
  times,
  type Gateway,
} from './gateways.ts'

const names = ['acme', 'bolt', 'rook']
const clients = clientsBlock([
  ...names.map((id) => ({ id, keys: [`tg_${id}`], perMinute: 1_000_000 })),
  { id: 'few', keys: ['tg_few'], perMinute: 5 },
])

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
async function today({ adminOrigin }: Gateway): Promise<DayUsage | undefined> {
  const answer = await fetch(`${adminOrigin}/api/usage`)
  return answer.ok
    ? ((await answer.json().catch(() => undefined)) as DayUsage | undefined)
    : undefined
}

/** When its store is in time. */
async function admitted(gateway: Gateway): Promise<Counts> {
  let told: DayUsage | undefined
  await eventually('an answer', async () => (told = await today(gateway)) !== undefined)
  const counts = told?.clients.map((one): [string, number] => [one.client, one.admitted])
  return Object.fromEntries(counts?.filter(([, count]) => count !== 0) ?? [])
}

/** Until what is told is exactly what the backend has counted. */
const exact = (gateway: Gateway, backend: RawBackend): Promise<number> =>
  eventually(`${gateway.origin} tells what the backend has counted`, async () => {
    const [told, seen] = [await admitted(gateway), seenBy(backend)]
    return [...Object.keys(told), ...names].every((client) => told[client] === seen[client])
  })

/** All clients ask all gateways again and again until it is ended; what came of it. */
function load(gateways: readonly Gateway[]) {
  const answers: { client: string; code: string | undefined; endedMs: number }[] = []
  const ids = [...names, 'few']
  const end = again(gateways.length * ids.length, async (at) => {
    const client = pick(ids, at)
    const gateway = pick(gateways, Math.floor(at / ids.length))
    const answer = await gateway.call(`tg_${client}`).catch(() => undefined)
    answers.push({ client, code: answer?.code, endedMs: performance.now() })
  })
  return { answers, end }
}

const isLimited = ({ code }: { readonly code: string | undefined }): boolean =>
  code === 'rate_limit_exceeded'

/** A body that breaks off before a backend has seen anything of its request: charged, and handed back. */
async function breakOff(gateway: Gateway): Promise<void> {
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
const fileStore = (): string => `store: { file: "${temporaryFolder()}/store.db" }`

describe('the totals of a day', () => {
  it('are what the backend has counted of gateways on one Redis that freezes, and but for its latest second of a worker that is killed', async () => {
    await dayWithAtLeast(90_000)
    const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
    const fileFor = (workers: number): string =>
      configFile(backend.url, {
        server: served(workers),
        store: storeOn(redis, 'timeout: 110ms, onOutage: local'),
        bans: 'bans: { grace: 1m }',
        clients,
      })
    const first = await gatewayProcess(fileFor(2))
    const second = await gatewayHere(fileFor(1))

    const all = load([first, second])
    await sleep(300)
    await Promise.all([first, second].map(breakOff))
    redis.freeze()
    await eventually('it is away', async () => (await today(first)) === undefined)
    await sleep(300)
    redis.thaw()
    await eventually('it is back', async () => (await today(first)) !== undefined)
    await eventually('one is limited', () => all.answers.some(isLimited))
    await all.end()
    // What it has not written by now it writes at its end.
    await second.stop()
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
    const sent = await Promise.all(times(30, () => decided(() => first.call('tg_acme'))))
    expect(sent.every(({ status }) => status === 200)).toBe(true)
    const expected = (told['acme'] ?? 0) + 30
    await expect.poll(async () => (await admitted(first))['acme']).toBe(expected)
  })

  it('are in store.file over a stop, and over a crash but for the latest seconds', async () => {
    await dayWithAtLeast(90_000)
    const backend = await startRawBackend()
    const file = configFile(backend.url, { store: fileStore(), clients })
    const ask = (gateway: Gateway) =>
      Promise.all(times(20, () => decided(() => gateway.call('tg_acme'))))
    const stopped = await gatewayHere(file)
    await ask(stopped)
    await stopped.stop()
    const crashed = await gatewayProcess(file)
    expect(await admitted(crashed)).toEqual({ acme: 20 })
    await ask(crashed)
    await exact(crashed, backend)
    expect(seenBy(backend)).toEqual({ acme: 40 })
    await ask(crashed)
    crashed.signal('SIGKILL')
    await crashed.finished
    const { acme = 0 } = await admitted(await gatewayHere(file))
    expect(acme).toBeGreaterThanOrEqual(40)
    expect(acme).toBeLessThanOrEqual(60)
    expect(seenBy(backend)).toEqual({ acme: 60 })
  })

  it.each([
    ['store.file', fileStore],
    ['Redis', () => storeOn(sharedRedis(), 'timeout: 110ms')],
  ])('has a row for each plan that a client had, also after a restart (%s)', async (_, storeOf) => {
    await dayWithAtLeast(90_000)
    const backend = await startRawBackend()
    const store = storeOf()
    const textWith = (plan: string): string => {
      const key = `{ id: mover-1, sha256: ${sha256('tg_mover')} }`
      const mover = `clients: [{ id: mover, plan: ${plan}, keys: [${key}] }]`
      return configText({ upstreams: [backend.url], blocks: { store, clients: mover } })
    }
    const file = temporaryFile('gateway.yaml', textWith('pro'))
    const gateway = await gatewayHere(file)
    const ask = async (requests: number) => {
      for (let at = 0; at < requests; at++)
        expect((await decided(() => gateway.call('tg_mover'))).status).toBe(200)
    }
    await ask(5)
    await eventually('they are kept', async () => (await admitted(gateway))['mover'] === 5)
    writeFileSync(file, textWith('business'))
    await gateway.reload()
    await ask(7)
    const shown = async (from: Gateway) => {
      const answer = await fetch(`${from.adminOrigin}/api/clients/mover/usage`)
      const { days } = (await answer.json()) as ClientUsage
      return { days, all: (await today(from))?.clients }
    }
    const refused = { minute: 0, day: 0, ban: 0 }
    const plans = [
      { plan: 'pro', admitted: 5, refused },
      { plan: 'business', admitted: 7, refused },
    ]
    const day = new Date().toISOString().slice(0, 10)
    const wanted = {
      days: [{ day, plan: 'pro', admitted: 12, refused, plans }],
      all: plans.map((one) => ({ client: 'mover', ...one })),
    }
    await expect.poll(() => shown(gateway)).toEqual(wanted)
    await gateway.stop()
    // A store that is late says nothing.
    const again = await gatewayHere(file)
    await expect.poll(() => shown(again)).toEqual(wanted)
    const printed: string[] = []
    const print = (line: string) => void printed.push(line)
    const output = { args: [], env: {}, screen: { columns: 100 }, print, complain: print }
    await usageCommand(output, { client: 'mover', admin: again.adminOrigin })
    expect(printed.at(-1)).toMatch(/ 12 +0 +0 +0 +so far, pro 5, business 7$/)
  })
})

/** When it has not changed for more than a second. */
async function settled(gateway: Gateway): Promise<Counts> {
  let [counts, told] = [{} as Counts, await admitted(gateway)]
  while (JSON.stringify(counts) !== JSON.stringify(told)) {
    await sleep(1_200)
    ;[counts, told] = [told, await admitted(gateway)]
  }
  return told
}
