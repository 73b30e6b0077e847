/** What a running gateway explains: where settings stand, as its files say, while they are what was taken; turns and strikes of the moment. */
import { readFileSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { ExplainAnswer, Explanation } from '../../src/insight/api/explain.ts'
import { askAdmin } from '../support/admin-client.ts'
import { typed } from '../support/command-line.ts'
import { sha256 } from '../support/gateway.ts'
import { answer, type RawBackend } from '../support/raw-backend.ts'
import { sharedRedis } from '../support/redis-server.ts'
import { clientsBlock, configFile, eventually, gatewayHere, gatewayProcess } from './gateways.ts'
import { quotaInRedis, startRawBackend, storeOn, times, type Gateway } from './gateways.ts'

/** undefined: too many were asked for at once. */
async function explained({ adminOrigin }: Gateway, keyId: string) {
  const query = { method: 'GET', target: '/v1/pets', keyId }
  const { status, body } = await askAdmin(adminOrigin, 'POST /api/explain', query)
  return status === 429 ? undefined : (body as unknown as ExplainAnswer)
}
const stageOf = ({ stages }: Explanation, name: string) =>
  stages.find(({ stage }) => stage === name)
const placesOf = ({ stages }: Explanation) => stages.map(({ stage, config }) => [stage, config])

it('tells what the store knows of use, with the most by which that is behind, and charges nothing', async () => {
  const [backend, redis] = [await startRawBackend(), sharedRedis()]
  const limits = { perMinute: 100_000, perDay: 1_000_000 }
  const file = configFile(backend.url, {
    store: storeOn(redis, 'timeout: 110ms'),
    clients: clientsBlock([{ id: 'acme', keys: ['a'], ...limits }]),
  })
  const gateway = await gatewayHere(file)
  const used = async () => {
    const { explanation, missing = [] } = (await explained(gateway, 'acme-1')) ?? {}
    const quota = explanation && stageOf(explanation, 'take-quota')
    // The store did not answer in time.
    if (quota === undefined || quota.verdict === 'unknown') return undefined
    const bound = /of the minute, (\d+) of the day$/.exec(missing.join())?.[1]
    return { told: Number(quota.numbers['dayUsed']) - 1, bound: Number(bound ?? 0) }
  }
  let sent = 0
  await eventually('use that is not stated', async () => {
    for (let n = 0; n < 10; n++) if ((await gateway.call('a')).status === 200) sent += 1
    const seen = await used()
    if (seen === undefined) return false
    expect(seen.told).toBeLessThanOrEqual(sent)
    expect(seen.told + seen.bound).toBeGreaterThanOrEqual(sent)
    return seen.bound > 0
  })
  await eventually('all stated', () => quotaInRedis(redis, 'acme').dayUsed === sent)
  await expect.poll(used).toEqual({ told: sent, bound: 0 })
})

/** A backend that holds all answers, and a gateway in front of it that may hold two of a client in each worker. */
async function scene(workers: number) {
  const over = Promise.withResolvers<Buffer>()
  const backend = await startRawBackend({ respond: () => over.promise })
  const file = configFile(backend.url, {
    server: `server: { listen: "127.0.0.1:0", workers: ${workers} }`,
    plans: 'plans: { enterprise: { custom: true, concurrent: 2 } }',
    bans: 'bans: { strikes: 1000, within: 10m, grace: 0s }',
    clientFiles: 'clientFiles: ["${FOLDER}/*.jsonl"]',
    clients: clientsBlock([{ id: 'acme', keys: ['a'], perMinute: 100_000 }]),
  })
  const bolt = { id: 'bolt', plan: 'enterprise', limits: { perMinute: 1, perDay: 1 } }
  const keys = [{ id: 'bolt-1', sha256: sha256('b') }]
  const clients = join(dirname(file), 'more.jsonl')
  writeFileSync(clients, `\n${JSON.stringify({ ...bolt, keys })}\n`)
  const env = { FOLDER: dirname(file) }
  const gateway =
    workers === 1 ? await gatewayHere(file, { env }) : await gatewayProcess(file, { env })
  return { backend, file, clients, env, gateway, release: () => over.resolve(answer(200, 'ok')) }
}
type Scene = Awaited<ReturnType<typeof scene>>

it('tells the lines of the files that it has taken, also once those are others', async () => {
  const { file, clients, env, gateway } = await scene(1)
  const places = async (keyId: string) => {
    const seen = await explained(gateway, keyId)
    return seen && placesOf(seen.explanation)
  }
  const offline = async (keyId: string) => {
    const call = ['explain', '--config', file, '--key', keyId, '--json', 'GET /v1/pets']
    return placesOf(JSON.parse((await typed(call, { env })).stdout) as Explanation)
  }
  const before = await places('bolt-1')
  expect(JSON.stringify(before)).toContain('more.jsonl:2"')
  expect(before).toEqual(await offline('bolt-1'))
  expect(await places('acme-1')).toEqual(await offline('acme-1'))
  writeFileSync(clients, `\n${readFileSync(clients, 'utf8')}`)
  expect(await places('bolt-1')).toEqual(before)
  expect(JSON.stringify(await offline('bolt-1'))).toContain('more.jsonl:3"')
})

/** Each on a connection of its own, which any of the workers may take. */
const send = ({ origin }: Gateway, key: string) =>
  new Promise<number | undefined>((resolve, reject) => {
    const headers = { authorization: `Bearer ${key}` }
    get(`${origin}/v1/pets`, { agent: false, headers }, (response) =>
      response.resume().once('end', () => resolve(response.statusCode)),
    ).once('error', reject)
  })

async function tellsTurns({ gateway, backend, release }: Scene, workers: number): Promise<void> {
  const ask = async () => {
    const { explanation, missing = [] } = (await explained(gateway, 'acme-1')) ?? {}
    // A worker was late.
    if (explanation === undefined || missing.some((what) => what.startsWith('worker')))
      return undefined
    const turn = stageOf(explanation, 'take-turn')
    const { limit: _, ...each } = turn?.numbers ?? {}
    const taken = Object.values(each).reduce<number>((sum, one) => sum + Number(one), 0)
    return { explanation, turn, each, taken, quota: stageOf(explanation, 'take-quota') }
  }
  const calls: Promise<unknown>[] = []
  await eventually('every turn taken', () => {
    calls.push(...times(workers, () => send(gateway, 'a')))
    return ofAcme(backend) === 2 * workers
  })
  let full: Awaited<ReturnType<typeof ask>>
  await eventually('it is told', async () => (full = await ask())?.taken === 2 * workers)
  expect(full).toMatchObject({
    each: workers === 1 ? { taken: 2 } : { takenOfWorker1: 2, takenOfWorker2: 2 },
    explanation: { code: 'concurrency_limit_exceeded', decidedBy: 'take-turn', charged: false },
  })
  const here = workers === 1 ? '2 here' : '2 in worker 1, 2 in worker 2'
  expect(full?.turn?.rule).toBe(
    `at most 2 at once, per worker; ${here}, and none ends within 250 ms`,
  )
  await eventually('a refusal', async () => (await send(gateway, 'a')) === 429)
  release()
  await Promise.all(calls)
  await eventually('every turn given back', async () => {
    const seen = await ask()
    if (seen?.taken !== 0 || seen.explanation.status !== null) return false
    // That which is thought of is told with the use, and is not charged.
    return Number(seen.quota?.numbers['dayUsed']) - 1 === ofAcme(backend)
  })
}
const ofAcme = ({ requests }: RawBackend): number =>
  requests.filter((request) => request.header('x-client-id') === 'acme').length

async function tellsStrikes({ gateway }: Scene, workers: number): Promise<void> {
  const counted = () => gateway.metric('tollgate_strikes_total')
  await eventually('strikes', async () => {
    return (await send(gateway, 'b')) === 429 && (await counted()) > 3 * workers
  })
  await eventually('all strikes told', async () => {
    const [seen, strikes] = [await explained(gateway, 'bolt-1'), await counted()]
    if (seen === undefined || seen.missing?.some((what) => what.startsWith('worker'))) return false
    const ban = stageOf(seen.explanation, 'check-ban')
    const { strikes: told, strikesLimit } = ban?.numbers ?? {}
    // What workers could not tell their supervisor in time each has counted by itself.
    if (workers === 1 ? told !== strikes : !(Number(told) > 1 && Number(told) <= strikes))
      return false
    const where = workers === 1 ? 'here' : 'in worker [12]'
    expect(ban?.rule).toMatch(new RegExp(`^no ban, ${told} of ${strikesLimit} strikes ${where}$`))
    return true
  })
}

describe.each([1, 2])('a gateway of %i workers', (workers) => {
  it('tells what its processes know of turns and strikes, and nothing changes by being asked', async () => {
    const all = await scene(workers)
    await tellsTurns(all, workers)
    await tellsStrikes(all, workers)
  })
})
