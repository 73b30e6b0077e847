/** Everything that takes part, as real processes: the store, backends, gateways. */
import { clientsBlock, gatewayProcess, times, type GatewayProcess } from '../process/gateways.ts'
import { configText, type GatewayOptions } from '../support/gateway.ts'
import { temporaryFile } from '../support/processes.ts'
import { startBackend } from './backends.ts'
import type { ChaosClient } from './events.ts'
import { startStore } from './store.ts'

/** A place among the gateways; who is killed or stopped leaves it to another. */
export interface Place {
  readonly name: string
  readonly workers: number
  readonly engine: 'direct' | 'http-proxy-3'
  /** Neither it nor a worker of it is ever killed. */
  readonly isNeverKilled: boolean
  /** undefined: nobody, and nothing should be sent there. */
  gateway: GatewayProcess | undefined
}

export type World = Awaited<ReturnType<typeof startWorld>>

const BACKENDS = 3
export const keyOf = (client: string): string => `tg_chaos_${client}`

export async function startWorld(
  clients: readonly ChaosClient[],
  gateways: readonly Omit<Place, 'name' | 'gateway'>[],
  openStore = startStore,
) {
  const store = await openStore()
  const backends = await Promise.all(times(BACKENDS, (at) => startBackend(`backend ${at + 1}`)))
  const reference = await startBackend('reference')
  const config = { clients, urls: backends.map(({ url }) => url), redis: store.servers }
  const places = gateways.map((each, at): Place => {
    return { ...each, name: `gateway ${at + 1}`, gateway: undefined }
  })
  const all: GatewayProcess[] = []
  const start = async (place: Place): Promise<void> => {
    place.gateway = await gatewayProcess(
      temporaryFile('gateway.yaml', configText(optionsOf(place, config))),
    )
    all.push(place.gateway)
  }
  await Promise.all(places.map(start))
  return {
    places,
    backends,
    /** Behind no gateway, and always well: what it takes to call it is the machine's. */
    reference,
    store,
    start,
    /** Log lines of all gateways there were. */
    logLines: () => all.flatMap((gateway) => gateway.stderr().split('\n')),
  }
}

function optionsOf(
  { workers, engine }: Pick<Place, 'workers' | 'engine'>,
  given: { clients: readonly ChaosClient[]; urls: readonly string[]; redis: string },
): GatewayOptions {
  const urls = given.urls.join(', ')
  const clients = given.clients.map(({ id, perMinute }) => ({ id, keys: [keyOf(id)], perMinute }))
  return {
    upstreams: given.urls,
    blocks: {
      // What is on its way when a gateway is told to stop is accepted; a busy machine is no overload.
      server: `server: { listen: "127.0.0.1:0", workers: ${workers}, timeouts: { drainDelay: 1s }, overload: { lag: 1s } }`,
      // A backend that hangs is given up in time; one on a machine that is busy is not.
      upstream: `upstream: { urls: [${urls}], engine: ${engine}, timeouts: { connect: 3s, response: 4s } }`,
      store: `store: { redis: ${given.redis}, timeout: 110ms, onOutage: closed }`,
      // No strikes within a minute: bans are another matter.
      bans: 'bans: { grace: 1m }',
      routes: 'routes: [{ name: chaos, match: "GET /chaos/{number}", websocket: true }]',
      clients: clientsBlock(clients),
    },
  }
}
