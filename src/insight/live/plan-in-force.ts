/** What a client was seen with may be over: a reload moves it to another plan, or removes it. */
import type { Config } from '../../config/config.ts'

/** seen: the plan it was seen with, which its token may have named. undefined: it is gone. */
export type PlanOf = (client: string, seen: string) => string | undefined

export const planInForce =
  ({ clients, plans, jwt }: Pick<Config, 'clients' | 'plans' | 'jwt'>): PlanOf =>
  (client, seen) =>
    clients.planOf(client) ?? (jwt && plans.get(seen)?.limits ? seen : undefined)
