import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { expect, it } from 'vitest'
import { createConnections } from '../../../src/state/redis/connections.ts'
import { sharedRedis } from '../../support/redis-server.ts'
import { serversAt } from '../../support/redis-servers.ts'

it('String.prototype is fast where ioredis is loaded, whose class that extends String made it slow, and stays so', () => {
  const script = `
    const { slotOf } = await import('${new URL('../../../src/state/redis/connections.ts', import.meta.url).href}')
    slotOf('loads it')
    class Another extends String {}
    console.log(%HasFastProperties(String.prototype))
  `
  const flags = ['--allow-natives-syntax', '--input-type=module', '--eval']
  const printed = execFileSync(process.execPath, [...flags, script], { encoding: 'utf8' })
  expect(printed.trim()).toBe('true')
})

it('a server whose answer lies unread is not given up by a process that stood still', async () => {
  const { url, cli } = sharedRedis()
  const connections = createConnections({ servers: serversAt(url), timeoutMs: 1_000 })
  const redis = connections.openSubscriber()
  await once(redis, 'ready')
  const answered = redis.ping()
  // Who asks later is answered later.
  cli('PING')
  // A peer may be silent for a second.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_100)
  expect(await answered).toBe('PONG')
  for (const connection of [redis, connections.client]) connection.disconnect()
})
