/**
 * The Redis that all processes share: one server, the master of sentinels, or a cluster. Calls are bounded, and each server is
 * behind a breaker.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { HostPort, RedisConfig } from '../../config/config.ts'
import { addressesOf, nameOf } from '../../config/hosts.ts'
import { createConnections, defineScript } from './connections.ts'
import type { RedisOptions, RedisScript } from './connections.ts'
import { isUnresolved } from './faults.ts'
import { Masters } from './masters.ts'
import { findRisks, inspectServer } from './servers.ts'
import { Subscriber, type Subscription } from './subscriber.ts'

/**
 * The gateway's view of Redis. Calls reject with StoreUnavailable when the server that holds the key is away, too slow or refuses
 * them. After a few errors in a row, or a second of silence, they reject at once and without a call.
 */
export type RedisStore = ReturnType<typeof connectRedis>

/** A start waits this long for the store, so that its first requests are not decided without it. */
const READY_AT_MOST_MS = 1_000

/** Returns at once; the store becomes available as soon as a server has answered a probe. */
export function connectRedis(options: RedisOptions) {
  const connections = createConnections(options)
  const { client } = connections
  const masters = new Masters(client, options)
  const [subscriber, watch] = openSubscribers(connections, options.servers, masters)
  let warning: string | undefined
  // A warning may change, as another server may have taken over.
  const warn = (found: string | undefined): void => {
    if (found !== warning) options.onWarning?.((warning = found))
  }
  masters.onRecovered(() => void findRisks(client).then(warn, () => warn(undefined)))
  return {
    /** Prepares a script, which throws StoreUnavailable while the server of its keys is away, else rejects with it. */
    script: (text: string): RedisScript => {
      const run = defineScript(client, text)
      return (keys, args) => masters.call(keys[0] ?? '', () => run(keys, args))
    },
    /** Returns an empty record for an absent key. */
    hgetall: async (key: string) => masters.call(key, () => client.hgetall(key)),
    /** false: calls fail at once, until a probe has succeeded. In a cluster: no master can be called. */
    get available() {
      return masters.available
    },
    get refusal() {
      return masters.refusal
    },
    get cause() {
      return masters.cause
    },
    get warning() {
      return warning
    },
    /** Resolves when the store is available, or has had its time to be; rejects with an Error of the refusal, if there is one. */
    ready: async () => {
      const usable = new Promise<void>((resolve) => masters.onRecovered(resolve))
      await Promise.race([usable, sleep(READY_AT_MOST_MS)])
      if (!masters.available && masters.refusal === undefined) await inspect(options, masters, warn)
      if (masters.refusal !== undefined) throw new Error(masters.refusal)
    },
    /** Subscribes on a connection of its own, across reconnects; takes effect as soon as the server is available. */
    subscribe: (channel: string, subscription: Subscription) =>
      subscriber.add(channel, subscription),
    /** Calls the listener each time the store, or one master of the cluster, becomes available, the first time included. */
    onRecovered: (listener: () => void) => masters.onRecovered(listener),
    close: async () => {
      watch?.close()
      subscriber.close()
      masters.close()
    },
  }
}

/** Notes why the configured servers cannot be used. */
async function inspect(
  { servers, tls }: RedisOptions,
  masters: Masters,
  warn: (found: string) => void,
): Promise<void> {
  const inspectOne = async (address: HostPort): Promise<void> => {
    const fault = await inspectServer(address, tls)
    const name = nameOf(address)
    masters.note(fault, name)
    if (isUnresolved(fault)) warn(`no such host: ${name}; correct it, or the resolver`)
  }
  await Promise.all(addressesOf(servers).map(inspectOne))
}

/** Opens the subscriber of the store, and one that leaves a master for the one that the sentinels have named in its place. */
function openSubscribers(
  connections: ReturnType<typeof createConnections>,
  servers: RedisConfig,
  masters: Masters,
): [Subscriber, Subscriber?] {
  const { client, openSubscriber, openSentinel } = connections
  // In a cluster this reports faults that the library hides, such as a certificate that is not trusted.
  const subscriber = new Subscriber(openSubscriber, (fault, { options }) =>
    masters.note(fault, servers.kind === 'sentinels' ? undefined : nameOf(options)),
  )
  if (openSentinel === undefined || servers.kind !== 'sentinels') return [subscriber]
  const watch = new Subscriber(openSentinel, (fault, { options }) =>
    masters.note(fault, nameOf(options)),
  )
  // The connection itself does not report it, and an old master that no sentinel reaches goes on taking writes that will be lost.
  watch.add('+switch-master', {
    message: (text) => {
      const [name, , , host, port] = text.split(' ')
      const { remoteAddress, remotePort } = client.stream ?? {}
      const isThere = remoteAddress === host && String(remotePort) === port
      if (name !== servers.name || isThere) return
      // A connection that is not yet there asks the sentinels by itself.
      if (client.status === 'ready' || client.status === 'connect') client.disconnect(true)
      subscriber.renew()
    },
    subscribed: () => undefined,
  })
  return [subscriber, watch]
}
