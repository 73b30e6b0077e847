/** Settings of a server that may lose counts are told, where the server tells them. */
import { describe, expect, it } from 'vitest'
import { until } from '../../support/controlled-authority.ts'
import { startRedisServer } from '../../support/redis-server.ts'
import { redisAt } from '../../support/redis-servers.ts'

const kept = ['--appendonly', 'yes']
const EVICTS = /^127\.0\.0\.1:\d+: maxmemory-policy is allkeys-lru: .*; set noeviction$/
const FORGETS = /^127\.0\.0\.1:\d+: nothing is kept over a restart: .*; set appendonly yes$/
const everything = ['~*', '&*', '+@all']

describe('the warning of a store', () => {
  it.each<{ what: string; settings: string[]; rights?: string[]; warning?: RegExp }>([
    { what: 'that keeps a log', settings: kept },
    { what: 'that makes snapshots', settings: ['--save', '3600 1'] },
    { what: 'that keeps nothing', settings: [], warning: FORGETS },
    {
      what: 'that evicts',
      settings: [...kept, '--maxmemory-policy', 'allkeys-lru'],
      warning: EVICTS,
    },
    {
      what: 'that keeps nothing and hides its settings',
      settings: [],
      rights: [...everything, '-config'],
      warning: FORGETS,
    },
    { what: 'that hides everything', settings: [], rights: [...everything, '-info', '-config'] },
  ])('$what', async ({ settings, rights, warning }) => {
    const server = await startRedisServer(...settings)
    if (rights !== undefined)
      server.cli('ACL', 'SETUSER', 'default', 'reset', 'on', 'nopass', ...rights)
    const told: (string | undefined)[] = []
    const onWarning = (text: string | undefined) => void told.push(text)
    const store = redisAt(server.url, { timeoutMs: 1_000, onWarning })
    await until(() => store.available)
    if (warning === undefined) await new Promise((resolve) => setTimeout(resolve, 300))
    else await until(() => told.length > 0)
    expect(told).toEqual(warning === undefined ? [] : [expect.stringMatching(warning)])
    expect(store.warning).toBe(told[0])
    expect(store.available).toBe(true)
  })
})
