import { createServer, type Server } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { createBackend } from '../../src/backends/backend.ts'
import { createBackendProbe } from '../../src/backends/probe.ts'
import { freePort } from '../support/redis-server.ts'

const servers: Server[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
})

async function listen(port: number): Promise<{ connections(): number }> {
  let count = 0
  const server = createServer((socket) => {
    count++
    socket.on('error', () => {}).end()
  })
  servers.push(server)
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return { connections: () => count }
}

describe('the probe', () => {
  it('writes into the state of the backends which of them take connections', async () => {
    const [up, down] = [await freePort(), await freePort()]
    await listen(up)
    const backends = [up, down].map((port) => createBackend(`http://127.0.0.1:${port}`))
    expect(await createBackendProbe(backends, 1_000)()).toBe(backends)
    expect(backends.map(({ fault }) => fault)).toEqual([undefined, 'ECONNREFUSED'])
  })

  it('connects at most once a second, and sees a backend that has come back', async () => {
    const port = await freePort()
    const backend = createBackend(`http://127.0.0.1:${port}`)
    const probe = createBackendProbe([backend], 1_000)
    await probe()
    const server = await listen(port)
    await probe()
    expect([backend.fault, server.connections()]).toEqual(['ECONNREFUSED', 0])
    await sleep(1_010)
    await Promise.all([probe(), probe()])
    expect(backend.fault).toBeUndefined()
    await sleep(20)
    expect(server.connections()).toBe(1)
  })
})
