/** What a dry run says of clients that a reload would refuse at once, and what the reload then does. */
import { writeFileSync } from 'node:fs'
import { afterAll, describe, expect, it } from 'vitest'
import type { OverNow } from '../../src/changes/reload-outcome.ts'
import type { ClientsPage } from '../../src/api/usage.ts'
import { askAdmin } from '../support/admin-client.ts'
import { typed } from '../support/command-line.ts'
import { configText } from '../support/gateway.ts'
import { temporaryFile } from '../support/processes.ts'
import { dayWithAtLeast } from '../support/utc-windows.ts'
import {
  clientsBlock,
  decided,
  endAll,
  eventually,
  gatewayProcess,
  pick,
  rawBackend,
  redisServer,
  type GatewayProcess,
} from './gateways.ts'

afterAll(endAll)

/** How many each has used, and its limits before and after. */
const uses = { above: 7, at: 5, below: 3, unused: 0, raised: 7 }
type Id = keyof typeof uses
const ids = Object.keys(uses) as Id[]
const keyOf = (id: Id): string => `tg_over_${id}_0123456789`
const clients = (limitOf: (id: Id) => number) =>
  clientsBlock(
    ids.map((id) => ({ id, keys: [keyOf(id)], perMinute: limitOf(id), perDay: limitOf(id) })),
  )
const before = clients(() => 100)
const after = clients((id) => (id === 'raised' ? 200 : 5))

async function gateways(workers: readonly number[], store: string) {
  const backend = await rawBackend()
  const textOf = (count = 1, block: string): string => {
    const server = `server: { listen: "127.0.0.1:0", workers: ${count} }`
    return configText({ upstreams: [backend.url], blocks: { server, store, clients: block } })
  }
  const files = workers.map((count) => temporaryFile('gateway.yaml', textOf(count, before)))
  return {
    all: await Promise.all(files.map((file) => gatewayProcess(file))),
    write: (block: string) =>
      files.forEach((file, at) => writeFileSync(file, textOf(workers[at], block))),
  }
}

const overOf = async ({ adminOrigin }: GatewayProcess): Promise<OverNow> => {
  const { body } = await askAdmin(adminOrigin, 'POST /api/reload', { dryRun: true })
  return body['over'] as OverNow
}

const usedOf = async ({ adminOrigin }: GatewayProcess) => {
  const { body } = await askAdmin(adminOrigin, 'GET /api/clients?sort=id')
  const page = body as unknown as ClientsPage
  return Object.fromEntries(page.clients.map(({ id, day }) => [id, day?.used]))
}

describe.concurrent.each([
  ['in memory', [1], false],
  ['for its workers', [2], false],
  ['in a Redis of two gateways', [1, 2], true],
] as const)('a dry run where the store is %s', (_, workers, isRedis) => {
  it('says whom the reload refuses at once, without charging anybody', async () => {
    const redis = isRedis ? await redisServer() : undefined
    const store = redis ? `store: { redis: "${redis.url}" }` : 'store: { file: "" }'
    const { all, write } = await gateways(workers, store)
    await dayWithAtLeast(60_000)
    for (const id of ids)
      for (let n = 0; n < uses[id]; n++) {
        const gateway = pick(all, n)
        expect((await decided(() => gateway.call(keyOf(id)))).status).toBe(200)
      }
    write(after)
    for (const gateway of all) {
      // What a process has spent it states a moment later.
      await eventually('all is counted', async () => (await usedOf(gateway))['above'] === 7)
      await eventually('all is counted', async () => (await overOf(gateway)).count === 2)
      expect(await overOf(gateway)).toMatchObject({
        scope: 'store',
        of: 4,
        lookedAt: 4,
        clients: ['above', 'at'],
      })
      expect(await usedOf(gateway)).toEqual(uses)
      const { stdout } = await typed(['reload', '--dry-run', '--admin', gateway.adminOrigin])
      expect(stdout).toContain(
        '\n! 2 clients are at or above their new limit now, and refused at once: above, at\nwould be taken',
      )
    }
    for (const gateway of all)
      expect((await askAdmin(gateway.adminOrigin, 'POST /api/reload')).body['outcome']).toBe(
        'taken',
      )
    const statuses = await Promise.all(
      ids.map(async (id) => (await decided(() => pick(all, 0).call(keyOf(id)))).status),
    )
    expect(statuses).toEqual([429, 429, 200, 200, 200])
    if (redis === undefined) return
    await redis.stop()
    write(clients(() => 4))
    expect(await overOf(pick(all, 0))).toMatchObject({
      missing: ['the store is away: 5 of 5 clients were not looked at'],
      of: 5,
      lookedAt: 0,
      count: 0,
      clients: [],
    })
    const { stdout } = await typed(['reload', '--dry-run', '--admin', pick(all, 0).adminOrigin])
    expect(stdout).toContain('! how many clients are above their new limits now is not known (')
  })
})
