/** Parts that several views share: a client's windows and state, and its row. */
import { count, duration, percent, UNKNOWN, usage } from '../../../insight/format.js'
import { now } from '../live.js'
import { bar, html, state } from '../ui.js'

/** @import { ClientRow, WindowUse } from '../../../insight/api/usage.ts' */
/** @import { Listing } from '../table.js' */
/** @import { Kind } from '../ui.js' */
/** @import { Decision } from '../../../core/record/recent.ts' */

const NEAR = 0.8

/** @param {string} client */
export const clientLink = (client) =>
  html`<a href="#/clients/${encodeURIComponent(client)}">${client}</a>`

/** Link to the explanation of a recent decision. @param {string} id */
export const explainLink = (id) =>
  html`${id} <a href="#/explain?id=${encodeURIComponent(id)}" aria-label="Explain ${id}">Explain</a>`

/** @param {string} iso */
const left = (iso) => {
  const leftMs = Date.parse(iso) - now()
  return leftMs < 1_000 ? 'ends now' : duration(leftMs)
}

/** Kind and words, such as `bad limited by day, 9 h 52 min`. @param {ClientRow} row @returns {[Kind, string]} */
export function stateOf({ state: known, share, keys }) {
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

/** @param {WindowUse | null} window */
export const shareOf = (window) => (window === null ? null : window.used / window.limit)

/** @param {WindowUse | null} window */
function windowCell(window) {
  if (window === null) return UNKNOWN
  const share = shareOf(window)
  return html`${usage(window)} <span class="percent">${percent(share)}</span>${bar(share)}`
}

/** @param {string} caption @param {string} empty @returns {Listing<ClientRow>} */
export const clientListing = (caption, empty) => ({
  caption,
  idOf: ({ id }) => id,
  empty,
  columns: [
    ['Client', ({ id }) => clientLink(id), 'title'],
    ['Plan', ({ plan }) => plan],
    ['Minute', ({ minute }) => windowCell(minute), 'wide number'],
    ['Day', ({ day }) => windowCell(day), 'wide number'],
    ['Refused 5 min here', ({ refusedLately }) => count(refusedLately), 'number'],
    ['State', (row) => state(...stateOf(row)), 'wide'],
  ],
})

/** Says in a few words why a request was refused. @param {Decision} decision */
export function whyOf({ window, refusal, minute, day, cause }) {
  if (window !== null) return `${window} ${usage(window === 'minute' ? minute : day)}`
  return [refusal ?? '', cause ?? ''].filter((text) => text !== '').join(': ') || UNKNOWN
}
