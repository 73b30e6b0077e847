/** The parts of a world that are started within this process, for a run of a few seconds; nothing of it can be killed or frozen but the store. */
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gatewayHere } from '../process/gateways.ts'
import { atEnd } from '../support/ending.ts'
import { configText, type GatewayOptions } from '../support/gateway.ts'
import { temporaryFile, type Finished } from '../support/processes.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { createBackend, type Mood } from './backend.ts'
import { createBook, type ChaosBackend } from './backends.ts'
import type { ChaosStore } from './store.ts'
import type { ChaosGateway, Parts } from './world.ts'

const never = (): never => {
  throw new Error('not within a process')
}

async function startStore(): Promise<ChaosStore> {
  const server = await startRedisServer('--appendonly', 'yes', '--appendfsync', 'no')
  return { servers: server.url, master: server, isBack: async () => undefined, failOver: never }
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
  atEnd(end)
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

async function startGateway(options: GatewayOptions): Promise<ChaosGateway> {
  const gateway = await gatewayHere(temporaryFile('gateway.yaml', configText(options)))
  const ended = Promise.withResolvers<Finished>()
  const end = (code: number, stderr = ''): void => ended.resolve({ code, stdout: '', stderr })
  const signal = (): undefined =>
    void gateway.stop().then(
      () => end(0),
      (error: unknown) => end(1, String(error)),
    )
  return { ...gateway, finished: ended.promise, signal }
}

export const inProcess: Parts = { store: startStore, backend: startBackend, gateway: startGateway }
