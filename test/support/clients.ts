import { ClientTable } from '../../src/config/clients/client-table.ts'
import { Scratch } from '../../src/config/clients/columns.ts'
import type { ClientConfig, Clients } from '../../src/config/config.ts'

/** Clients as a configuration has them. */
export const createClients = (list: readonly ClientConfig[]): Clients => {
  const plans = new Map(
    list.map(({ plan, concurrent }) => [plan, { name: plan, limits: undefined, concurrent }]),
  )
  const scratch = new Scratch([...plans.keys()], JSON.stringify(list).length)
  for (const [index, client] of list.entries()) scratch.add(client, index)
  const onSame = () => {
    throw new Error('the clients are wrong')
  }
  return new ClientTable(scratch.finish(onSame), plans)
}
