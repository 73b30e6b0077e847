/** What a dry run says of clients that a reload would refuse at once, and what the reload then does. */
import { writeFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import type { OverNow } from '../../src/config/changes/blast-radius.ts'
import type { ClientsPage } from '../../src/admin/clients/operations.ts'
import { askAdmin } from '../support/admin-client.ts'
import { typed } from '../support/command-line.ts'
import { configText } from '../support/gateway.ts'
import { temporaryFile } from '../support/processes.ts'
import { dayWithAtLeast } from '../support/utc-windows.ts'
import { clientsBlock, decided, eventually, gatewayHere, pick } from './gateways.ts'
import { startRawBackend, startRedisServer, storeOn, type Gateway } from './gateways.ts'

/** How many each has used, and its limits before and after. */
const uses = { above: 7, at: 5, below: 3, unused: 0, raised: 7 }
type Id = keyof typeof uses
const ids = Object.keys(uses) as Id[]
const keyOf = (id: Id): string => `tg_over_${id}_0123456789`
const clients = (limitOf: (id: Id) => number) =>
  clientsBlock(
    ids.map((id) => ({ id, keys: [keyOf(id)], perMinute: limitOf(id), perDay: limitOf(id) })),
  )

const overOf = async ({ adminOrigin }: Gateway): Promise<OverNow> =>
  (await askAdmin(adminOrigin, 'POST /api/reload', { dryRun: true })).body['over'] as OverNow

const usedOf = async ({ adminOrigin }: Gateway) => {
  const { body } = await askAdmin(adminOrigin, 'GET /api/clients?sort=id')
  const page = body as unknown as ClientsPage
  return Object.fromEntries(page.clients.map(({ id, day }) => [id, day?.used]))
}

it('a dry run of gateways on one Redis says whom the reload refuses at once, without charging anybody', async () => {
  const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
  const store = storeOn(redis, 'timeout: 110ms')
  const textOf = (block: string): string =>
    configText({ upstreams: [backend.url], blocks: { store, clients: block } })
  const file = temporaryFile('gateway.yaml', textOf(clients(() => 100)))
  const first = await gatewayHere(file)
  const all = [first, await gatewayHere(file)]
  await dayWithAtLeast(60_000)
  for (const id of ids)
    for (let n = 0; n < uses[id]; n++)
      expect((await decided(() => pick(all, n).call(keyOf(id)))).status).toBe(200)
  writeFileSync(file, textOf(clients((id) => (id === 'raised' ? 200 : 5))))
  for (const gateway of all) {
    // What a process has spent it states a moment later.
    await eventually('all is counted', async () => (await usedOf(gateway))['above'] === 7)
    const told = { scope: 'store', of: 4, lookedAt: 4, clients: ['above', 'at'] }
    await eventually('all is counted', async () => {
      const over = await overOf(gateway)
      if (over.count === 2) expect(over).toMatchObject(told)
      return over.count === 2
    })
    expect(await usedOf(gateway)).toEqual(uses)
  }
  const { stdout } = await typed(['reload', '--dry-run', '--admin', first.adminOrigin])
  expect(stdout).toContain(
    '\n! 2 clients are at or above their new limit now, and refused at once: above, at\nwould be taken',
  )
  for (const { adminOrigin } of all)
    expect((await askAdmin(adminOrigin, 'POST /api/reload')).body['outcome']).toBe('taken')
  const statuses = await Promise.all(
    ids.map(async (id) => (await decided(() => first.call(keyOf(id)))).status),
  )
  expect(statuses).toEqual([429, 429, 200, 200, 200])
  await redis.stop()
  writeFileSync(file, textOf(clients(() => 4)))
  const nobody = { of: 5, lookedAt: 0, count: 0, clients: [] }
  const missing = ['the store is away: 5 of 5 clients were not looked at']
  expect(await overOf(first)).toMatchObject({ missing, ...nobody })
  const away = await typed(['reload', '--dry-run', '--admin', first.adminOrigin])
  expect(away.stdout).toContain('! How many clients are above their new limits now is not known (')
})
