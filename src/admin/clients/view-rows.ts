/** Parts that several views share: a client's windows and state, and its row. */
import { count, duration, percent, UNKNOWN, usage } from '../../insight/format.js'
import { now } from '../page/live.ts'
import { bar, html, state, type Kind } from '../page/ui.ts'
import type { ClientRow, WindowUse } from './operations.ts'
import type { Listing } from '../page/table.ts'
import type { Decision } from '../../core/record/recent.ts'

const NEAR = 0.8

export const clientLink = (client: string) =>
  html`<a href="#/clients/${encodeURIComponent(client)}">${client}</a>`

/** Link to the explanation of a recent decision. */
export const explainLink = (id: string) =>
  html`${id} <a href="#/explain?id=${encodeURIComponent(id)}" aria-label="Explain ${id}">Explain</a>`

const left = (iso: string) => {
  const leftMs = Date.parse(iso) - now()
  return leftMs < 1_000 ? 'ends now' : `${duration(leftMs)} left`
}

/** Kind and words, such as `bad limited by day, 9 h 52 min`. */
export function stateOf({ state: known, share, keys }: ClientRow): [Kind, string] {
  if (known === null) return ['none', 'unknown, store away']
  if (known.state === 'limited') return ['bad', `limited by ${known.by}, ${left(known.until)}`]
  if (known.state === 'banned') return ['bad', `all keys banned, ${left(known.until)}`]
  const banned = keys.filter(
    ({ bannedUntil }) => bannedUntil !== null && Date.parse(bannedUntil) > now(),
  )
  const [first] = banned
  if (first !== undefined) {
    const which = banned.length === 1 ? `key ${first.id}` : `${banned.length} keys`
    return ['warn', `${which} banned, ${left(first.bannedUntil ?? '')}`]
  }
  return (share ?? 0) >= NEAR ? ['warn', 'near its limit'] : ['ok', 'ok']
}

export const shareOf = (window: WindowUse | null) =>
  window === null ? null : window.used / window.limit

function windowCell(name: 'minute' | 'day', window: WindowUse | null) {
  if (window === null) return UNKNOWN
  const share = shareOf(window)
  return html`${usage(window, name)} <span class="percent">${percent(share)}</span>${bar(share)}`
}

export const clientListing = (caption: string, empty: string): Listing<ClientRow> => ({
  caption,
  idOf: ({ id }) => id,
  empty,
  columns: [
    ['Client', ({ id }) => clientLink(id), 'title'],
    ['Plan', ({ plan }) => plan],
    ['Minute', ({ minute }) => windowCell('minute', minute), 'wide number'],
    ['Day', ({ day }) => windowCell('day', day), 'wide number'],
    ['Refused by this gateway, 5 min', ({ refusedLately }) => count(refusedLately), 'wide number'],
    ['State', (row) => state(...stateOf(row)), 'wide'],
  ],
})

/** Says in a few words why a request was refused. */
export function whyOf({ window, refusal, minute, day, cause }: Decision) {
  if (window !== null) return `${window} ${usage(window === 'minute' ? minute : day, window)}`
  return [refusal ?? '', cause ?? ''].filter((text) => text !== '').join(': ') || UNKNOWN
}
