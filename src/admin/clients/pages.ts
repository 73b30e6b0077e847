/** Selects the clients of a page: those that this gateway has seen, in the requested order, then all others as they are configured. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { z } from 'zod'
import type { ClientConfig, Config } from '../../config/config.ts'
import type { Live } from '../../insight/live/live.ts'
import { planInForce } from '../../insight/live/seen-clients.ts'

export type ShownClient = Pick<ClientConfig, 'id' | 'plan' | 'limits' | 'keys'>

export const clientsQuery = z
  .strictObject({
    sort: z.enum(['nearest', 'used', 'refused', 'id'], 'is none of these').default('id'),
    plan: z.string().optional(),
    /** Part of the id or the whole id of a key; where no client has it, part of a key's id. */
    q: z.string().default(''),
    /** `seen:` and the cursor of the page before, or `rest:` and how many configured clients were searched; '': the first page. */
    cursor: z
      .string()
      .regex(/^(?:rest:\d{1,9}|seen:[\d.e+-]{1,24}:.+)$/, 'is none of a page')
      .default(''),
  })
  .refine(({ sort, cursor }) => sort !== 'id' || !cursor.startsWith('seen:'), {
    path: ['cursor'],
    message: 'is of a page in another order',
  })
export const CLIENTS_FORM =
  'Ask with ?sort=nearest, used, refused or id, ?plan=NAME, ?q= part of an id, ?cursor=CURSOR of the page before, or none of them.'

type ClientQuery = z.infer<typeof clientsQuery>
type Seen = Pick<Live['clients'], 'get' | 'page'>

const CLIENTS_A_PAGE = 50
/** Clients that are searched at once, in less than a millisecond. */
const LOOKED_AT_ONCE = 100

/** Stands for the key of a client that comes with tokens. */
const ofToken = (id: string): ClientConfig['keys'][number] => ({
  id: `jwt:${id}`,
  sha256: '',
  expiresAtMs: undefined,
})

/** A client of the configuration, or one that came with a token; undefined: neither. */
export function findClient(config: Config, seen: Seen, id: string): ShownClient | undefined {
  const known = config.clients.get(id)
  if (known !== undefined) return known
  const { plan = '' } = seen.get(id, nowSeconds()) ?? {}
  const limits = config.plans.get(plan)?.limits
  return limits && config.jwt && { id, plan, limits, keys: [ofToken(id)] }
}

const nowSeconds = (): number => Math.floor(Date.now() / 1000)

export async function pageOf(config: Config, seen: Seen, asked: ClientQuery) {
  const { sort, plan, q, cursor } = asked
  const owner = config.clients.keyById(q)?.client.id
  const place = cursor.slice('seen:'.length)
  const first =
    sort === 'id' || cursor.startsWith('rest:')
      ? undefined
      : seen.page(
          { sort, plan, q, owner, cursor: place || undefined, limit: CLIENTS_A_PAGE },
          nowSeconds(),
          planInForce(config),
        )
  const clients = (first?.clients ?? []).flatMap((id) => findClient(config, seen, id) ?? [])
  const from = first === undefined ? Number(place) : 0
  const rest = await search(config, asked, {
    from,
    wanted: first?.cursor === undefined ? CLIENTS_A_PAGE - clients.length : 0,
    isShown: ({ id }) => sort === 'id' || seen.get(id, nowSeconds()) === undefined,
    isFound: ({ id }) => id === owner || id.includes(q),
  })
  if (q !== '' && rest.total === 0)
    return search(config, asked, {
      from,
      wanted: CLIENTS_A_PAGE,
      isShown: () => true,
      isFound: ({ keys }) => keys.some(({ id }) => id.includes(q)),
    })
  return {
    clients: [...clients, ...rest.clients],
    total: rest.total,
    cursor: first?.cursor === undefined ? rest.cursor : `seen:${first.cursor}`,
  }
}

/** Searches in small slices, so that requests are served; to the end only where the total is not known. */
async function search(
  { clients }: Config,
  { plan, q }: ClientQuery,
  page: {
    readonly from: number
    readonly wanted: number
    isShown(client: ClientConfig): boolean
    isFound(client: ClientConfig): boolean
  },
) {
  const known = plan === undefined ? clients.size : (clients.countByPlan().get(plan) ?? 0)
  const found: ClientConfig[] = []
  let total = 0
  /** Place of the first client of the next page. */
  let next: number | undefined
  const isOver = (): boolean => q === '' && (next !== undefined || total === known)
  for (let from = q === '' ? page.from : 0; from < clients.size && !isOver();) {
    const slice = clients.slice(from, from + LOOKED_AT_ONCE)
    for (const [nth, client] of Array.from(slice).entries()) {
      if (plan !== undefined && client.plan !== plan) continue
      if (!page.isFound(client)) continue
      total += 1
      if (from + nth < page.from || !page.isShown(client)) continue
      if (found.length < page.wanted) found.push(client)
      else next ??= from + nth
    }
    from += LOOKED_AT_ONCE
    await nextTurn()
  }
  const cursor = next === undefined ? null : `rest:${next}`
  return { clients: found, total: q === '' ? known : total, cursor }
}
