/** A configuration as plain data, which can be sent to another process; the bytes of its clients travel separately. */
import type { Config } from '../config.ts'
import { ClientTable, type ClientTableParts } from './client-table.ts'

export interface PlainConfig extends Omit<Config, 'clients'> {
  readonly clients: Omit<ClientTableParts, 'buffer'>
}

export const toPlainConfig = (config: Config): PlainConfig => {
  const { counts, planNames } = clientTableOf(config).parts
  return { ...config, clients: { counts, planNames } }
}

export const fromPlainConfig = (plain: PlainConfig, buffer: ArrayBuffer): Config => ({
  ...plain,
  clients: new ClientTable({ ...plain.clients, buffer }, plain.plans),
})

export const clientTableOf = ({ clients }: Pick<Config, 'clients'>): ClientTable => {
  if (clients instanceof ClientTable) return clients
  throw new TypeError('the clients of a configuration are not a ClientTable')
}
