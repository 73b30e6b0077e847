/** `tollgate clients`: who is near its limits, who is limited, and why. */
import type { ClientRow, ClientsPage, WindowUse } from '../../admin/clients/operations.ts'
import { id, number, text, type Column } from '../../tools/columns.ts'
import { windowNames, type PerWindow } from '../../config/time.ts'
import { count, duration, percent, plural, UNKNOWN, usage } from '../../insight/format.js'
import { choice, type Declaration } from '../program.ts'
import type { Texts } from '../edge.ts'
import { asking, listing, type Asking } from './asking.ts'

export const clients: Declaration = (program, { once }) =>
  asking(program, 'clients', 'who is near its limits, who is limited and why')
    .option('--plan <plan>', 'only clients of this plan')
    .option('--search <text>', 'only clients whose id contains it, or that own this key')
    .addOption(choice('--sort <order>', 'default: nearest', ['nearest', 'used', 'refused', 'id']))
    .action(once(() => clientsCommand))

type ClientsOptions = Asking & Texts<'plan' | 'search'> & Partial<Pick<ClientsPage, 'sort'>>

/** All other numbers come from the store. */
const OWN = 'REFUSED 5m and the order are of this gateway alone.'

const clientsCommand = listing<ClientsPage, ClientRow, ClientsOptions>(
  ({ plan, search: q, sort = 'nearest' }) => {
    const query = { sort, ...(plan !== undefined && { plan }), ...(q !== undefined && { q }) }
    return `/api/clients?${new URLSearchParams(query).toString()}`
  },
  ({ clients: rows, total }, nowMs) => ({
    rows,
    none: 'There is no such client.',
    next:
      total > rows.length
        ? `${count(total - rows.length)} more: narrow them by --plan and --search. ${OWN}`
        : OWN,
    columns: [
      id('CLIENT', (client) => client.id),
      text('PLAN', ({ plan }) => plan, { drop: 2 }),
      ...windowColumns((used) => percent(used).padStart(4)),
      number('REFUSED 5m', (client) => client.refusedLately, { write: count, drop: 1 }),
      // This is never cut, as its end is what matters.
      id('STATE, TIME LEFT', (client) => stateOf(client, nowMs), {
        plain: (client) => stateOf(client, undefined),
        colour: (client) => ([null, 'ok'].includes(stateOf(client, undefined)) ? undefined : 'red'),
      }),
    ],
  }),
)

/** A client that may go on is ok. nowMs: undefined leaves out how long it lasts. */
function stateOf({ state, keys }: ClientRow, nowMs: number | undefined): string | null {
  if (state === null) return null
  const lasting = (what: string, until: string): string =>
    nowMs === undefined ? what : `${what}, ${duration(Math.max(0, Date.parse(until) - nowMs))}`
  if (state.state === 'limited') return lasting(`limited by ${state.by}`, state.until)
  if (state.state === 'banned') return lasting('all keys banned', state.until)
  const banned = keys.flatMap(({ id: key, bannedUntil: until }) => (until ? [{ key, until }] : []))
  const [first] = banned
  if (first === undefined) return 'ok'
  const which = banned.length === 1 ? `key ${first.key}` : plural(banned.length, 'key')
  return lasting(`${which} banned`, first.until)
}

type Use = Pick<WindowUse, 'used' | 'limit'>

export const share = ({ used, limit }: Use): number => (limit === 0 ? 1 : used / limit)

/** Columns of the use of each window, which is nearly used up at 80 %. more: what a person reads behind the numbers. drop: of all but the longest, which never goes. */
export const windowColumns = (more: (share: number) => string, drop = -1) =>
  windowNames.map((window): Column<PerWindow<Use | null>> => ({
    head: window.toUpperCase(),
    kind: 'number',
    drop: window === windowNames.at(-1) ? -1 : drop,
    plain: ({ [window]: use }) => use && `${use.used}/${use.limit}`,
    text: ({ [window]: use }) => (use ? `${usage(use, window)} ${more(share(use))}` : UNKNOWN),
    colour: ({ [window]: use }) =>
      use === null || share(use) < 0.8 ? undefined : share(use) < 1 ? 'yellow' : 'red',
  }))
