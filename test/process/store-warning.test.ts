import { expect, it } from 'vitest'
import {
  configFile,
  eventually,
  gatewayProcess,
  startRawBackend,
  startRedisServer,
  gatewayHere,
} from './gateways.ts'

it.each([1, 2])(
  'a store that may lose counts is a warning in log and readiness, and no more (%i workers)',
  async (workers) => {
    const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
    redis.cli('CONFIG', 'SET', 'maxmemory-policy', 'volatile-ttl')
    const file = configFile(backend.url, {
      server: `server: { listen: 127.0.0.1:0, workers: ${workers} }`,
      store: `store: { redis: "${redis.url}" }`,
    })
    const gateway = await (workers === 1 ? gatewayHere : gatewayProcess)(file)
    const check = async (): Promise<unknown> => {
      const response = await fetch(`${gateway.adminOrigin}/readyz`)
      expect(response.status).toBe(200)
      const { checks } = (await response.json()) as { checks: { name: string }[] }
      return checks.find(({ name }) => name === 'store')
    }
    await eventually('the warning', async () => JSON.stringify(await check()).includes('warning'))
    expect(await check()).toMatchObject({
      ok: true,
      reason: 'available',
      warning: expect.stringMatching(/maxmemory-policy is volatile-ttl.*; .*kept over a restart/),
    })
    const shown = await (await fetch(`${gateway.adminOrigin}/api/store`)).json()
    expect(shown).toMatchObject({ kind: 'redis', state: 'up', cause: null })
    // A supervisor has a connection of its own beside those of its workers.
    const connections = workers === 1 ? 1 : workers + 1
    await eventually('a line of each', () => gateway.logged('storeWarning').length >= connections)
    expect(gateway.logged('storeWarning')).toHaveLength(connections)
  },
)

it.each([
  ['a server', '"redis://reddis.invalid:6379"', 'ENOTFOUND'],
  ['a cluster', '{ cluster: ["reddis.invalid:6379"] }', '.+'],
  ['sentinels', '{ sentinels: ["reddis.invalid:6379"], name: main }', '.+'],
])(
  '%s whose name leads nowhere is named in log and readiness from the start',
  async (_, redis, cause) => {
    const backend = await startRawBackend()
    const file = configFile(backend.url, { store: `store: { redis: ${redis} }` })
    const gateway = await gatewayHere(file, { waitForStore: false })
    await eventually('the line', () => gateway.logged('storeWarning').length === 1)
    const said = 'no such host: reddis.invalid:6379; correct it, or'
    expect(gateway.logged('storeWarning')[0]?.['warning']).toContain(said)
    const page = await (await fetch(`${gateway.adminOrigin}/readyz`)).text()
    expect(page).toContain(said)
    expect(page).toMatch(new RegExp(`"away \\(${cause}\\); onOutage is local"`))
    const shown = await (await fetch(`${gateway.adminOrigin}/api/store`)).json()
    expect(shown).toMatchObject({ state: 'away', cause: expect.stringMatching(`^${cause}$`) })
  },
)
