/** One client: why it is refused, its windows, keys, history, and recent refusals. */
import { askToBan, askToLift, askToReset } from '../acts.js'
import {
  clock,
  count,
  duration,
  percent,
  relative,
  UNKNOWN,
  usage,
} from '../../../insight/format.js'
import { live, now } from '../live.js'
import { Table } from '../table.js'
import { bar, button, html, section, state, time, timeText, useAnswer } from '../ui.js'
import { call } from '../api.js'
import { History } from './history.js'
import { explainLink, shareOf, stateOf, whyOf } from './parts.js'

/** @import { Place } from '../main.js' */
/** @import { ClientDetail, ClientKey, ClientRow, WindowUse } from '../../../insight/api/usage.ts' */
/** @import { Decision } from '../../../core/record/recent.ts' */
/** @import { Bans } from '../../../insight/api/state.ts' */
/** @import { Listing } from '../table.js' */

/** Says in a sentence why the client is refused. @param {ClientRow} row */
function sentence(row) {
  const [kind, text] = stateOf(row)
  const { state: known, minute, day } = row
  if (known?.state !== 'limited')
    return state(kind, `${text.charAt(0).toUpperCase()}${text.slice(1)}.`)
  const [other, window] = known.by === 'day' ? ['minute', minute] : ['day', day]
  const rest = window && ` The ${other} is ${window.used < window.limit ? 'free' : 'used up too'}.`
  const untilMs = Date.parse(known.until)
  const left = duration(Math.max(0, untilMs - now()))
  return state(
    kind,
    `Limited by ${known.by} until ${clock(untilMs, now())} (${left}).${rest ?? ''}`,
  )
}

/** @param {string} name @param {WindowUse | null} window */
function windowOf(name, window) {
  if (window === null)
    return html`<p class="window"><strong>${name}</strong> ${UNKNOWN} (store away)</p>`
  const leftMs = Math.max(0, Date.parse(window.resetsAt) - now())
  const leased = window.leased > 0 ? `, ${count(window.leased)} more handed out, maybe spent` : ''
  return html`<p class="window">
    <strong>${name}</strong>
    <span class="value">${`${usage(window)} ${percent(shareOf(window))}`}</span>
    ${bar(shareOf(window))}
    <span class="muted">${`resets in ${duration(leftMs)}${leased}`}</span>
  </p>`
}

/** @param {ClientKey} key */
const lastUse = ({ lastUsed }) =>
  lastUsed === null ? 'not since this gateway started' : timeText(lastUsed, 'relative')
/** @param {ClientKey} key */
const expiry = ({ expires }) =>
  expires === null ? 'never' : `${expires.slice(0, 10)} (${relative(Date.parse(expires), now())})`

/** @param {string} client @param {() => unknown} again @returns {Listing<ClientKey>} */
function keyListing(client, again) {
  const lift = async (/** @type {string} */ id) => {
    /** @type {Bans} */
    const { bans } = await call('/api/bans')
    const ban = bans.find(({ key }) => key === id)
    return ban === undefined ? again() : askToLift(ban, again)
  }
  /** @param {ClientKey} key */
  const action = ({ id, bannedUntil }) =>
    bannedUntil === null
      ? button('Ban', () => askToBan(client, [id], again), { 'aria-label': `Ban ${id}` })
      : button('Lift', () => lift(id), { 'aria-label': `Lift ban of ${id}` })
  return {
    caption: 'Keys',
    idOf: ({ id }) => id,
    empty: 'This client has no key.',
    columns: [
      ['Key', ({ id }) => id, 'title'],
      ['Last used here', lastUse],
      ['Expires', expiry],
      [
        'Ban',
        ({ bannedUntil: until }) => (until === null ? UNKNOWN : `■ until ${timeText(until)}`),
      ],
      ['Action', action, 'acts'],
    ],
  }
}

/** Refusals for one reason. @typedef {{ why: string, count: number, first: Decision, latest: Decision }} Reason */

/** The most frequent reason comes first. @param {readonly Decision[]} refusals newest first */
function reasonsOf(refusals) {
  /** @type {Map<string, Reason>} */
  const reasons = new Map()
  for (const one of refusals) {
    const why = one.window ?? one.refusal ?? ''
    const { count = 0, latest = one } = reasons.get(why) ?? {}
    reasons.set(why, { why, count: count + 1, first: one, latest })
  }
  return [...reasons.values()].sort((one, other) => other.count - one.count)
}

/** @param {Decision} request */
const requestText = ({ method, path, key }) =>
  `${method} ${path ?? UNKNOWN}${key === null ? '' : `, key ${key}`}`

/** @type {Listing<Reason>} */
const reasonListing = {
  caption: 'Recent refusals',
  idOf: ({ why }) => why,
  empty: 'None of the latest requests that this gateway keeps in memory was refused.',
  columns: [
    ['Why', ({ latest }) => whyOf(latest), 'title'],
    ['Status', ({ latest }) => String(latest.status), 'number'],
    ['Requests', (reason) => count(reason.count), 'number'],
    ['First', ({ first }) => time(first.at)],
    ['Last', ({ latest }) => time(latest.at)],
    ['Last request', ({ latest }) => requestText(latest), 'wide'],
    ['Its request id', ({ latest }) => explainLink(latest.id), 'wide'],
  ],
}

/** @param {ClientDetail} answer */
function scopeText({ scope, asOf }) {
  const isAway = live.overview?.attention.some(({ kind }) => kind === 'store') === true
  return `By the ${scope}${isAway ? ', which is away: this gateway only' : ''}, ${timeText(asOf, 'clock')}`
}

/** @param {ClientRow} row */
function planText({ plan, limits: { perMinute, perDay } }) {
  return `${plan} · ${count(perMinute)}/min · ${count(perDay)}/day`
}

/** @param {Place} place */
export function Client({ id }) {
  /** @type {ReturnType<typeof useAnswer<ClientDetail>>} */
  const { answer, note, load } = useAnswer(`/api/clients/${encodeURIComponent(id)}`)
  const row = answer?.client
  const keys = (row?.keys ?? []).map((key) => key.id)
  return html`
    ${note}
    <p class="says">${row && sentence(row)}</p>
    <p class="muted">${row && planText(row)}</p>
    <div class="windows">${row && [windowOf('Minute', row.minute), windowOf('Day', row.day)]}</div>
    <p class="muted">${answer && scopeText(answer)}</p>
    <p class="actions">
      ${button('Reset usage', () => row && askToReset(row, load), { disabled: row === undefined })}
      ${keys.length > 1 && button('Ban keys', () => askToBan(id, keys, load))}
    </p>
    ${section('Keys', html`<${Table} ...${keyListing(id, load)} rows=${row?.keys} />`)}
    <${History} client=${id} limit=${row?.limits.perDay} />
    ${section(
      'Recent refusals',
      html`<p class="muted">By reason, from what this gateway keeps in memory.</p>`,
      html`<${Table} ...${reasonListing} rows=${answer && reasonsOf(answer.recentRefusals)} />`,
    )}`
}
