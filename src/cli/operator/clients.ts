/** `tollgate clients`: who is near its limits, who is limited, and why. */
import type { ClientRow, ClientsPage, WindowUse } from '../../insight/api/usage.ts'
import { id, number, text, type Column } from '../terminal/table.ts'
import { count, duration, percent, plural, UNKNOWN } from '../../insight/format.js'
import { colourOf, listing, share, type Asking } from './asking.ts'

interface ClientsOptions extends Asking {
  readonly plan?: string
  readonly search?: string
  readonly sort?: ClientsPage['sort']
}

/** All other numbers come from the store. */
const OWN = 'REFUSED 5m and the order are of this gateway alone.'

export const clientsCommand = listing<ClientsPage, ClientRow, ClientsOptions>(
  ({ plan, search: q, sort = 'nearest' }) => {
    const query = { sort, ...(plan !== undefined && { plan }), ...(q !== undefined && { q }) }
    return `/api/clients?${new URLSearchParams(query).toString()}`
  },
  ({ clients, total }, nowMs) => ({
    rows: clients,
    none: 'There is no such client.',
    next:
      total > clients.length
        ? `${count(total - clients.length)} more: narrow them by --plan and --search. ${OWN}`
        : OWN,
    columns: [
      id('CLIENT', (client) => client.id),
      text('PLAN', ({ plan }) => plan, { drop: 2 }),
      windowColumn('MINUTE', ({ minute }) => minute),
      windowColumn('DAY', ({ day }) => day),
      number('REFUSED 5m', (client) => client.refusedLately, { write: count, drop: 1 }),
      // This is never cut, as its end is what matters.
      id('STATE', (client) => stateOf(client, nowMs), {
        plain: (client) => stateOf(client, undefined),
        colour: (client) =>
          [null, 'free'].includes(stateOf(client, undefined)) ? undefined : 'red',
      }),
    ],
  }),
)

const windowColumn = (
  head: string,
  of: (client: ClientRow) => WindowUse | null,
): Column<ClientRow> => ({
  head,
  kind: 'number',
  plain(client) {
    const use = of(client)
    return use && `${use.used}/${use.limit}`
  },
  text(client) {
    const use = of(client)
    if (use === null) return UNKNOWN
    return `${count(use.used)}/${count(use.limit)} ${percent(share(use)).padStart(4)}`
  },
  colour: (client) => colourOf(of(client)),
})

/** The state as on the page. nowMs: undefined leaves out how long it lasts. */
function stateOf({ state, keys }: ClientRow, nowMs: number | undefined): string | null {
  if (state === null) return null
  const lasting = (what: string, until: string): string =>
    nowMs === undefined ? what : `${what}, ${duration(Math.max(0, Date.parse(until) - nowMs))}`
  if (state.state === 'limited') return lasting(`limited by ${state.by}`, state.until)
  if (state.state === 'banned') return lasting('all keys banned', state.until)
  const banned = keys.flatMap(({ id: key, bannedUntil: until }) => (until ? [{ key, until }] : []))
  const [first] = banned
  if (first === undefined) return 'free'
  const which = banned.length === 1 ? `key ${first.key}` : plural(banned.length, 'key')
  return lasting(`${which} banned`, first.until)
}
