/** One client: why it is refused, its windows, keys, history, and recent refusals. */
import { windowNames, type WindowName } from '../../config/time.ts'
import { askToBan, askToLift, askToReset } from '../bans/view-dialogs.ts'
import {
  clock,
  count,
  duration,
  limitsText,
  percent,
  relative,
  UNKNOWN,
  usage,
} from '../../insight/format.js'
import { live, now } from '../page/live.ts'
import { Table, type Listing } from '../page/table.ts'
import { bar, button, html, section, state, time, timeText, useAnswer } from '../page/ui.ts'
import { call } from '../page/api.ts'
import { History } from '../usage/view.ts'
import { explainLink, shareOf, stateOf, titled, whyOf } from './view-rows.ts'
import type { ClientDetail, ClientKey, ClientRow, WindowUse } from './operations.ts'
import type { Decision } from '../../core/record/recent.ts'
import type { Requests, Whole } from '../../insight/api/live.ts'
import type { Bans } from '../bans/operations.ts'
import type { Place } from '../page/places.ts'

/** Says in a sentence why the client is refused. */
function sentence(row: ClientRow) {
  const [kind, text] = stateOf(row)
  const { state: known } = row
  if (known?.state !== 'limited') return state(kind, `${titled(text)}.`)
  const rest = windowNames.map((name) => {
    const window = row[name]
    if (name === known.by || window === null) return ''
    return ` The ${name} is ${window.used < window.limit ? 'not used up' : 'used up too'}.`
  })
  const untilMs = Date.parse(known.until)
  const left = duration(Math.max(0, untilMs - now()))
  return state(
    kind,
    `Limited by ${known.by} until ${clock(untilMs, now())} (${left} left).${rest.join('')}`,
  )
}

function windowOf(name: WindowName, window: WindowUse | null) {
  if (window === null)
    return html`<p class="window"><strong>${titled(name)}</strong> ${UNKNOWN} (store away)</p>`
  const leftMs = Math.max(0, Date.parse(window.resetsAt) - now())
  const leased =
    window.leased > 0 ? `, ${count(window.leased)} more handed out to processes, maybe spent` : ''
  return html`<p class="window">
    <strong>${titled(name)}</strong>
    <span class="value">${`${usage(window, name)} ${percent(shareOf(window))}`}</span>
    ${bar(shareOf(window))}
    <span class="muted">${`resets in ${duration(leftMs)}${leased}`}</span>
  </p>`
}

const lastUse = ({ lastUsed }: ClientKey) =>
  lastUsed === null ? 'not since this gateway started' : timeText(lastUsed, 'relative')
const expiry = ({ expires }: ClientKey) =>
  expires === null ? 'never' : `${expires.slice(0, 10)} (${relative(Date.parse(expires), now())})`

function keyListing(client: string, again: () => unknown): Listing<ClientKey> {
  const lift = async (id: string) => {
    const { bans } = await call<Bans>('/api/bans')
    const ban = bans.find(({ key }) => key === id)
    return ban === undefined ? again() : askToLift(ban, again)
  }
  const action = ({ id, bannedUntil }: ClientKey) =>
    bannedUntil === null
      ? button('Ban', () => askToBan(client, [id], again), { 'aria-label': `Ban ${id}` })
      : button('Lift', () => lift(id), { 'aria-label': `Lift ban of ${id}` })
  return {
    caption: 'Keys',
    idOf: ({ id }) => id,
    empty: 'This client has no key.',
    columns: [
      ['Key', ({ id }) => id, 'title'],
      ['Last used at this gateway', lastUse],
      ['Expires', expiry],
      ['Ban', ({ bannedUntil: end }) => (end === null ? UNKNOWN : `■ until ${timeText(end)}`)],
      ['Action', action, 'acts'],
    ],
  }
}

/** Refusals for one reason, newest first. */
type Reason = readonly [Decision, ...Decision[]]

/** The most frequent reason comes first. */
function reasonsOf(refusals: readonly Decision[]) {
  const byReason = Map.groupBy(refusals, ({ window, refusal }) => window ?? refusal)
  const reasons = [...byReason.values()] as unknown as Reason[]
  return reasons.sort((one, other) => other.length - one.length)
}

const requestText = ({ method, path, key }: Decision) =>
  `${method} ${path ?? UNKNOWN}${key === null ? '' : `, key ${key}`}`

const reasonListing: Listing<Reason> = {
  caption: 'Recent refusals',
  idOf: ([{ window, refusal }]) => window ?? refusal ?? '',
  empty: 'None of the latest requests that are kept in memory was refused.',
  columns: [
    ['Why', ([latest]) => whyOf(latest), 'title'],
    ['Status', ([{ status }]) => String(status), 'number'],
    ['Requests', ({ length }) => count(length), 'number'],
    ['First', (all) => time(all.at(-1)?.at ?? null), 'wide'],
    ['Last', ([{ at }]) => time(at), 'wide'],
    ['Last request', ([latest]) => requestText(latest), 'wide'],
    ['Its request id', ([{ id }]) => explainLink(id), 'wide'],
  ],
}

function scopeText({ scope, asOf }: ClientDetail) {
  const isAway = live.overview?.attention.some(({ kind }) => kind === 'store') === true
  const whose = scope === 'store' ? 'the store has' : 'this gateway alone has'
  return `Use and bans as ${whose} them${isAway ? ', as the store is away' : ''}, ${timeText(asOf, 'clock')}`
}

export function Client({ id }: Place) {
  const { answer, note, load } = useAnswer<ClientDetail>(`/api/clients/${encodeURIComponent(id)}`)
  const refused = useAnswer<Whole<Requests>>(
    `/api/requests?refused=true&client=${encodeURIComponent(id)}`,
  )
  const row = answer?.client
  const free = (row?.keys ?? []).filter(({ bannedUntil }) => bannedUntil === null)
  const freeIds = free.map((key) => key.id)
  return html`
    ${note}
    <p class="says">${row && sentence(row)}</p>
    <p class="muted">${row && `${row.plan} · ${limitsText(row.limits)}`}</p>
    <div class="windows">${row && windowNames.map((name) => windowOf(name, row[name]))}</div>
    <p class="muted">${answer && scopeText(answer)}</p>
    <p class="actions">
      ${button('Reset usage', () => row && askToReset(row, load), { disabled: row === undefined })}
      ${free.length > 1 && button('Ban keys', () => askToBan(id, freeIds, load))}
    </p>
    ${section('Keys', html`<${Table} ...${keyListing(id, load)} rows=${row?.keys} />`)}
    <${History} client=${id} limit=${row?.limits.perDay} />
    ${section(
      'Recent refusals',
      html`<p class="muted">By reason, from what is kept in memory.</p>`,
      refused.note,
      html`<${Table} ...${reasonListing} rows=${refused.answer && reasonsOf(refused.answer.requests)} />`,
    )}`
}
