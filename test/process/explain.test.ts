/** What a running gateway explains: where settings stand, as its files say, while they are what was taken; turns and strikes of the moment. */
import { appendFileSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { dirname, join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import type { ExplainAnswer, Explanation } from '../../src/api/explain.ts'
import { askAdmin } from '../support/admin-client.ts'
import { sha256 } from '../support/gateway.ts'
import { answer } from '../support/raw-backend.ts'
import {
  clientsBlock,
  configFile,
  endAll,
  eventually,
  gatewayProcess,
  rawBackend,
  redisServer,
  times,
  tollgate,
} from './gateways.ts'

afterAll(endAll)

const placesOf = ({ stages }: Explanation) => stages.map(({ stage, config }) => [stage, config])

it('tells what the store knows of use, with the most by which that is behind, and charges nothing', async () => {
  const [backend, redis] = await Promise.all([rawBackend(), redisServer()])
  const limits = { perMinute: 100_000, perDay: 1_000_000 }
  const file = configFile(backend.url, {
    store: `store: { redis: ${redis.url}, timeout: 110ms }`,
    clients: clientsBlock([{ id: 'acme', keys: ['a'], ...limits }]),
  })
  const gateway = await gatewayProcess(file)
  const query = { method: 'GET', target: '/v1/pets', keyId: 'acme-1' }
  const used = async () => {
    const { status, body } = await askAdmin(gateway.adminOrigin, 'POST /api/explain', query)
    if (status === 429) return undefined
    const { explanation, missing = [] } = body as unknown as ExplainAnswer
    const quota = explanation.stages.find(({ stage }) => stage === 'take-quota')
    // The store did not answer in time.
    if (quota?.verdict === 'unknown') return undefined
    const bound = /of the minute, (\d+) of the day$/.exec(missing.join())?.[1]
    return { told: Number(quota?.numbers['dayUsed']) - 1, bound: Number(bound ?? 0) }
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
  await eventually('all stated', async () => {
    const seen = await used()
    return seen?.bound === 0 && seen.told === sent
  })
})

describe.each([1, 2])('a gateway of %i workers', (workers) => {
  it('tells the same lines as its files, until they are others', async () => {
    const backend = await rawBackend()
    const file = configFile(backend.url, {
      server: `server: { listen: "127.0.0.1:0", workers: ${workers} }`,
      clientFiles: 'clientFiles: ["${FOLDER}/*.jsonl"]',
      clients: `clients:\n  - { id: acme, plan: pro, keys: [{ id: acme-1, sha256: "${sha256('a')}" }] }`,
    })
    const own = { id: 'bolt', plan: 'enterprise', limits: { perMinute: 1, perDay: 9 } }
    const clients = join(dirname(file), 'more.jsonl')
    writeFileSync(
      clients,
      `\n${JSON.stringify({ ...own, keys: [{ id: 'bolt-1', sha256: sha256('b') }] })}\n`,
    )
    const env = { FOLDER: dirname(file) }
    const gateway = await gatewayProcess(file, { env })
    const ask = async (keyId: string) => {
      const query = { method: 'GET', target: '/v1/pets/7', keyId }
      for (;;) {
        const { body } = await askAdmin(gateway.adminOrigin, 'POST /api/explain', query)
        const answer = body as unknown as ExplainAnswer
        // A busy machine may be too late to read the files.
        if (!answer.missing?.some((what) => what.includes('could not be read'))) return answer
      }
    }
    for (const keyId of ['acme-1', 'bolt-1']) {
      const { explanation, ...seen } = await ask(keyId)
      const call = ['explain', '--config', file, '--key', keyId, '--json', 'GET /v1/pets/7']
      const offline = await tollgate(call, { env }).finished
      expect(placesOf(explanation)).toEqual(placesOf(JSON.parse(offline.stdout) as Explanation))
      expect(JSON.stringify(placesOf(explanation))).toContain(
        keyId === 'acme-1' ? '"gateway.yaml:' : 'more.jsonl:2"',
      )
      expect(seen).not.toHaveProperty('missing')
    }
    appendFileSync(clients, '\n')
    const { explanation, missing } = await ask('bolt-1')
    expect(placesOf(explanation).filter(([, config]) => config !== null)).toEqual([])
    expect(missing).toEqual([expect.stringContaining('no longer what was taken')])
  })

  it('tells what its processes know of turns and strikes, and nothing changes by being asked', async () => {
    const over = Promise.withResolvers<Buffer>()
    const backend = await rawBackend({ respond: () => over.promise })
    const file = configFile(backend.url, {
      server: `server: { listen: "127.0.0.1:0", workers: ${workers} }`,
      plans: 'plans: { enterprise: { custom: true, concurrent: 2 } }',
      bans: 'bans: { strikes: 1000, within: 10m, grace: 0s }',
      clients: clientsBlock([
        { id: 'acme', keys: ['a'], perMinute: 100_000 },
        { id: 'bolt', keys: ['b'], perMinute: 1, perDay: 1 },
      ]),
    })
    const gateway = await gatewayProcess(file)
    const ask = async (keyId: string) => {
      const query = { method: 'GET', target: '/v1/pets', keyId }
      const { status, body } = await askAdmin(gateway.adminOrigin, 'POST /api/explain', query)
      const { explanation, missing = [] } = body as unknown as ExplainAnswer
      // Too many were asked for, or a worker was late.
      if (status === 429 || missing.some((what) => what.startsWith('worker'))) return undefined
      const of = (name: string) => explanation.stages.find(({ stage }) => stage === name)
      const [turn, ban] = [of('take-turn'), of('check-ban')]
      const { limit: _, ...each } = turn?.numbers ?? {}
      const taken = Object.values(each).reduce<number>((sum, one) => sum + Number(one), 0)
      return { explanation, turn, ban, each, taken, quota: of('take-quota') }
    }
    // Each on a connection of its own, which any of the workers may take.
    const send = (key: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        const headers = { authorization: `Bearer ${key}` }
        get(`${gateway.origin}/v1/pets`, { agent: false, headers }, (response) =>
          response.resume().once('end', () => resolve(response.statusCode)),
        ).once('error', reject)
      })
    const calls: Promise<unknown>[] = []
    let full: Awaited<ReturnType<typeof ask>>
    await eventually('every turn taken', async () => {
      if (full !== undefined || calls.length === 0)
        calls.push(...times(4 * workers, () => send('a')))
      full = await ask('acme-1')
      return full?.taken === 2 * workers
    })
    expect(full).toMatchObject({
      each: workers === 1 ? { taken: 2 } : { takenOfWorker1: 2, takenOfWorker2: 2 },
      explanation: {
        code: 'concurrency_limit_exceeded',
        decidedBy: 'take-turn',
        charged: false,
      },
    })
    const here = workers === 1 ? '2 here' : '2 in worker 1, 2 in worker 2'
    expect(full?.turn?.rule).toBe(
      `at most 2 at once, per worker; ${here}, and none ends within 250 ms`,
    )
    await eventually('a refusal', async () => (await send('a')) === 429)
    over.resolve(answer(200, 'ok'))
    await eventually('every turn given back', async () => {
      const seen = await ask('acme-1')
      if (seen?.taken !== 0 || seen.explanation.status !== null) return false
      // That which is thought of is told with the use, and is not charged.
      return Number(seen.quota?.numbers['dayUsed']) - 1 === backend.requests.length
    })
    await Promise.all(calls)

    const counted = () => gateway.metric('tollgate_strikes_total')
    await eventually('strikes', async () => {
      return (await send('b')) === 429 && (await counted()) > 3
    })
    await eventually('all strikes told', async () => {
      const [seen, strikes] = [await ask('bolt-1'), await counted()]
      const { strikes: told, strikesLimit } = seen?.ban?.numbers ?? {}
      // What workers could not tell their supervisor in time each has counted by itself.
      if (workers === 1 ? told !== strikes : !(Number(told) > 1 && Number(told) <= strikes))
        return false
      expect(seen?.ban?.rule).toMatch(
        new RegExp(
          `^no ban, ${told} of ${strikesLimit} strikes ${workers === 1 ? 'here' : 'in worker [12]'}$`,
        ),
      )
      return true
    })
  })
})
