import { build } from '../../src/config/clients/builder.ts'
import { Ring } from '../../src/config/clients/ring.ts'
import type { ClientConfig, Clients } from '../../src/config/config.ts'

/** Clients as a configuration has them. */
export const createClients = (list: readonly ClientConfig[]): Clients => {
  const plans = new Map(
    list.map(({ plan, concurrent }) => [plan, { name: plan, limits: undefined, concurrent }]),
  )
  const custom = Object.fromEntries([...plans.keys()].map((name) => [name, { custom: 'true' }]))
  const { ring } = build({ own: list, files: [], plans: custom, nowMs: 0, isLarge: false })
  if (ring === undefined) throw new Error('the clients are wrong')
  return new Ring(ring, plans)
}
