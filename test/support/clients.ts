import { build } from '../../src/config/clients/builder.ts'
import { ClientTable } from '../../src/config/clients/client-table.ts'
import type { ClientConfig, Clients } from '../../src/config/config.ts'

/** Clients as a configuration has them. */
export const createClients = (list: readonly ClientConfig[]): Clients => {
  const plans = new Map(
    list.map(({ plan, concurrent }) => [plan, { name: plan, limits: undefined, concurrent }]),
  )
  const custom = Object.fromEntries([...plans.keys()].map((name) => [name, { custom: 'true' }]))
  const { table } = build({ own: list, files: [], plans: custom, nowMs: 0 })
  if (table === undefined) throw new Error('the clients are wrong')
  return new ClientTable(table, plans)
}
