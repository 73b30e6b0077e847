/** A configuration as plain data, which can be sent to another process; the bytes of its clients travel separately. */
import type { Config } from '../config.ts'
import { Ring, type RingParts } from './ring.ts'

export interface PlainConfig extends Omit<Config, 'clients'> {
  readonly clients: Omit<RingParts, 'buffer'>
}

export const toPlainConfig = (config: Config): PlainConfig => {
  const { counts, planNames } = ringOf(config).parts
  return { ...config, clients: { counts, planNames } }
}

export const fromPlainConfig = (plain: PlainConfig, buffer: ArrayBuffer): Config => ({
  ...plain,
  clients: new Ring({ ...plain.clients, buffer }, plain.plans),
})

export const ringOf = ({ clients }: Pick<Config, 'clients'>): Ring => {
  if (clients instanceof Ring) return clients
  throw new TypeError('the clients of a configuration are a ring')
}
