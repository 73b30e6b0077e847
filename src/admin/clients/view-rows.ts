/** Parts that several views share: a client's windows and state, and its row. */
import { windowNames, type WindowName } from '../../config/time.ts'
import { count, duration, percent, UNKNOWN, usage } from '../../insight/format.js'
import { now } from '../page/live.ts'
import { bar, html, state, type Kind } from '../page/ui.ts'
import type { ClientRow, WindowUse } from './operations.ts'
import type { Column, Listing } from '../page/table.ts'
import type { Decision } from '../../core/record/recent.ts'

const NEAR = 0.8

export const clientLink = (client: string) =>
  html`<a href="#/clients/${encodeURIComponent(client)}">${client}</a>`

export const explainLink = (id: string) =>
  html`${id} <a href="#/explain?id=${encodeURIComponent(id)}" aria-label="Explain ${id}">Explain</a>`

/** The text with a capital letter first. */
export const titled = (text: string) => text.charAt(0).toUpperCase() + text.slice(1)

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

function windowCell(name: WindowName, window: WindowUse | null) {
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
    ...windowNames.map((name): Column<ClientRow> => {
      return [titled(name), (row) => windowCell(name, row[name]), 'wide number']
    }),
    ['Refused by this gateway, 5 min', ({ refusedLately }) => count(refusedLately), 'wide number'],
    ['State', (row) => state(...stateOf(row)), 'wide'],
  ],
})

/** Says in a few words why a request was refused. */
export function whyOf({ window, refusal, cause, ...uses }: Decision) {
  if (window !== null) return `${window} ${usage(uses[window], window)}`
  return [refusal ?? '', cause ?? ''].filter((text) => text !== '').join(': ') || UNKNOWN
}
