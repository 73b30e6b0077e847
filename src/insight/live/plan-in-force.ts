/** A client's current plan: a reload may have moved or removed it since it was last seen. */
import type { Config } from '../../config/config.ts'

/** Returns the current plan; undefined: the client is gone. seen: its last plan, which a token may have named. */
export type PlanOf = (client: string, seen: string) => string | undefined

export const planInForce =
  ({ clients, plans, jwt }: Pick<Config, 'clients' | 'plans' | 'jwt'>): PlanOf =>
  (client, seen) =>
    clients.planOf(client) ?? (jwt && plans.get(seen)?.limits ? seen : undefined)
