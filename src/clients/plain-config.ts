/** A configuration as plain data, which another process can be sent. */
import type { Config } from '../config/config.ts'
import { columnBytes } from './columns.ts'
import { Ring, type RingParts } from './ring.ts'

export interface PlainConfig extends Omit<Config, 'clients'> {
  readonly clients: RingParts
}

export const toPlainConfig = (config: Config): PlainConfig => {
  const { clients } = config
  if (!(clients instanceof Ring)) throw new TypeError('the clients of a configuration are a ring')
  const { buffer, ...parts } = clients.parts
  // A large buffer may be longer than what it holds.
  return { ...config, clients: { ...parts, buffer: buffer.slice(0, columnBytes(parts.counts)) } }
}

export const fromPlainConfig = (plain: PlainConfig): Config => ({
  ...plain,
  clients: new Ring(plain.clients, plain.plans),
})
