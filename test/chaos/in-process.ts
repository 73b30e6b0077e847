/** The parts of a world that are started within this process, for a run of a few seconds; nothing of it can be killed or frozen but the store. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { quotaKey } from '../../src/quota/authorities/redis.ts'
import { countersInRedis } from '../process/paced-callers.ts'
import { startTestGateway } from '../support/gateway.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { createBackend, type Mood } from './backend.ts'
import { createBook, type ChaosBackend } from './backends.ts'
import type { ChaosStore } from './store.ts'
import type { ChaosGateway, Parts } from './world.ts'

const never = (): never => {
  throw new Error('not within a process')
}

async function startStore(): Promise<ChaosStore> {
  const server = await startRedisServer('--appendonly', 'yes')
  return {
    servers: server.url,
    master: server,
    freeze: async (forMs) => {
      server.freeze()
      await sleep(forMs)
      server.thaw()
    },
    restart: async (forMs) => {
      await server.kill()
      await sleep(forMs)
      await server.restart()
    },
    failOver: never,
    counted: (client) => countersInRedis(server.port, quotaKey('tollgate', client)),
    close: () => server.stop(),
  }
}

async function startBackend(name: string): Promise<ChaosBackend> {
  const { sightings, take } = createBook(name)
  let mood: Mood = 'well'
  let server: Server = createServer()
  const listen = async (port: number): Promise<void> => {
    server = createBackend(take, () => mood)
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  }
  const end = async (): Promise<void> => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  await listen(0)
  const { port } = server.address() as AddressInfo
  return {
    name,
    url: `http://127.0.0.1:${port}`,
    be: (told) => void (mood = told),
    freeze: never,
    thaw: never,
    kill: end,
    restart: () => listen(port),
    sightings: () => sightings,
  }
}

async function startGateway(options: Parameters<Parts['gateway']>[0]): Promise<ChaosGateway> {
  const gateway = await startTestGateway(options)
  const ended = Promise.withResolvers<Awaited<ChaosGateway['finished']>>()
  const stderr = (): string =>
    gateway
      .logLines()
      .map((line) => JSON.stringify(line))
      .join('\n')
  return {
    origin: gateway.origin,
    finished: ended.promise,
    signal: () =>
      void gateway.stop().then(
        () => ended.resolve({ code: 0, stdout: '', stderr: '' }),
        (error: unknown) => ended.resolve({ code: 1, stdout: '', stderr: String(error) }),
      ),
    stderr,
    logged: never,
  }
}

export const inProcess: Parts = { store: startStore, backend: startBackend, gateway: startGateway }
