/** One client: why it is refused, its windows, keys, history, and recent refusals. */
import { askToBan, askToLift, askToReset } from '../acts.js'
import {
  clock,
  count,
  duration,
  percent,
  plural,
  relative,
  UNKNOWN,
  usage,
} from '../../../insight/format.js'
import { live, now } from '../live.js'
import { Table } from '../table.js'
import { bar, button, h, source, state, time, timeText, write } from '../ui.js'
import { call } from '../api.js'
import { history } from './history.js'
import { explainLink, shareOf, stateOf, whyOf } from './parts.js'

/** @import { Place, View } from '../main.js' */
/** @import { ClientDetail, ClientKey, ClientRow, WindowUse } from '../../../insight/api/usage.ts' */
/** @import { Decision } from '../../../core/record/recent.ts' */
/** @import { Bans } from '../../../insight/api/state.ts' */

/** Says in a sentence why the client is refused. @param {ClientRow} row */
function sentence(row) {
  const [kind, text] = stateOf(row)
  const { state: known, minute, day } = row
  if (known?.state === 'limited') {
    const other = known.by === 'day' ? 'minute' : 'day'
    const window = known.by === 'day' ? minute : day
    const rest =
      window === null
        ? ''
        : window.used < window.limit
          ? ` The ${other} is free.`
          : ` The ${other} is used up too.`
    const leftMs = Math.max(0, Date.parse(known.until) - now())
    return state(
      kind,
      `Limited by ${known.by} until ${clock(Date.parse(known.until), now())} (${duration(leftMs)}).${rest}`,
    )
  }
  return state(kind, `${text.charAt(0).toUpperCase()}${text.slice(1)}.`)
}

/** @param {string} name @param {WindowUse | null} window */
function windowOf(name, window) {
  if (window === null)
    return h('p', { class: 'window' }, h('strong', {}, name), ` ${UNKNOWN} (store away)`)
  const leftMs = Math.max(0, Date.parse(window.resetsAt) - now())
  const leased = window.leased > 0 ? `, ${count(window.leased)} more handed out, maybe spent` : ''
  return h(
    'p',
    { class: 'window' },
    h('strong', {}, name),
    h('span', { class: 'value' }, ` ${usage(window)} ${percent(shareOf(window))}`),
    bar(shareOf(window)),
    h('span', { class: 'muted' }, `resets in ${duration(leftMs)}${leased}`),
  )
}

/** @param {ClientKey} key */
function expiry({ expires }) {
  if (expires === null) return 'never'
  const atMs = Date.parse(expires)
  return `${expires.slice(0, 10)} (${relative(atMs, now())})`
}

/** @param {string} client @param {() => unknown} again */
function keyTable(client, again) {
  /** @param {ClientKey} key */
  const banOrLift = async ({ id, bannedUntil }) => {
    if (bannedUntil === null) return askToBan(client, [id], again)
    /** @type {Bans} */
    const { bans } = await call('/api/bans')
    const ban = bans.find(({ key }) => key === id)
    return ban === undefined ? again() : askToLift(ban, again)
  }
  return new Table({
    caption: 'Keys',
    idOf: (/** @type {ClientKey} */ { id }) => id,
    empty: 'This client has no key.',
    columns: [
      { head: 'Key', kind: 'title', text: ({ id }) => id },
      {
        head: 'Last used here',
        text: ({ lastUsed }) =>
          lastUsed === null ? 'not since this gateway started' : timeText(lastUsed, 'relative'),
      },
      { head: 'Expires', text: expiry },
      {
        head: 'Ban',
        text: ({ bannedUntil }) =>
          bannedUntil === null ? UNKNOWN : `■ until ${timeText(bannedUntil)}`,
      },
      {
        head: 'Action',
        kind: 'acts',
        text: ({ bannedUntil }) => String(bannedUntil !== null),
        draw: (current) => {
          const { id, bannedUntil } = current()
          const [word, label] = bannedUntil === null ? ['Ban', 'Ban'] : ['Lift', 'Lift ban of']
          return button(word, () => banOrLift(current()), { 'aria-label': `${label} ${id}` })
        },
      },
    ],
  })
}

/** List of refusals; new ones are counted, and shown on request. */
function refusalList() {
  /** @type {readonly Decision[] | undefined} */
  let shown
  /** @type {readonly Decision[]} */
  let latest = []
  const rows = new Table({
    caption: 'Recent refusals',
    idOf: (/** @type {Decision} */ { id }) => id,
    empty: 'None of the latest requests that this gateway keeps in memory was refused.',
    columns: [
      { head: 'At', text: ({ at }) => at, draw: (current) => time(current().at, 'clock') },
      { head: 'Request', kind: 'wide', text: ({ method, path }) => `${method} ${path ?? UNKNOWN}` },
      { head: 'Status', number: true, text: ({ status }) => String(status) },
      { head: 'Why', text: whyOf },
      { head: 'Key', text: ({ key }) => key ?? UNKNOWN },
      {
        head: 'Request id',
        text: ({ id }) => id,
        draw: (current) => explainLink(current().id),
      },
    ],
  })
  const showNew = button('', () => {
    shown = latest
    draw()
  })
  const draw = () => {
    if (shown === undefined || shown.length === 0) shown = latest
    const known = new Set(shown.map(({ id }) => id))
    const fresh = latest.filter(({ id }) => !known.has(id)).length
    write(showNew, `${plural(fresh, 'new refusal')}: Show`)
    showNew.hidden = fresh === 0
    rows.update(shown)
  }
  const update = (/** @type {readonly Decision[]} */ decisions) => {
    latest = decisions
    draw()
  }
  const about = h('p', { class: 'muted' }, 'Of what this gateway keeps in memory.')
  showNew.hidden = true
  const node = h('section', {}, h('h2', {}, 'Recent refusals'), about, showNew, rows.node)
  return { node, update }
}

/** @param {Place} place @returns {View} */
export function client({ id }) {
  /** @type {ClientRow | undefined} */
  let row
  const again = () => detail.load()
  const keys = keyTable(id, again)
  const refusals = refusalList()
  const days = history(id, () => row?.limits.perDay)
  const plan = h('p', { class: 'muted' })
  const says = h('p', { class: 'says' })
  const windows = h('div', { class: 'windows' })
  const age = h('p', { class: 'muted' })
  const reset = button('Reset usage', () => row && askToReset(row, again))
  const keyIds = () => (row?.keys ?? []).map((key) => key.id)
  const banAll = button('Ban keys', () => askToBan(id, keyIds(), again))
  // Nothing can be changed until the client is loaded.
  reset.disabled = banAll.hidden = true
  const detail = source(
    `/api/clients/${encodeURIComponent(id)}`,
    (/** @type {ClientDetail} */ answer) => {
      row = answer.client
      const { perMinute, perDay } = row.limits
      write(plan, `${row.plan} · ${count(perMinute)}/min · ${count(perDay)}/day`)
      says.replaceChildren(sentence(row))
      windows.replaceChildren(windowOf('Minute', row.minute), windowOf('Day', row.day))
      const isAway = live.overview?.attention.some(({ kind }) => kind === 'store') === true
      const scope = `${answer.scope}${isAway ? ', which is away: this gateway only' : ''}`
      write(age, `By the ${scope}, ${timeText(answer.asOf, 'clock')}`)
      reset.disabled = false
      banAll.hidden = row.keys.length < 2
      keys.update(row.keys)
      refusals.update(answer.recentRefusals)
      days.draw()
    },
  )
  const acts = h('p', { class: 'actions' }, reset, banAll)
  const keySection = h('section', {}, h('h2', {}, 'Keys'), keys.node)
  return {
    title: id,
    content: [plan, detail.note, says, windows, age, acts, keySection, days.node, refusals.node],
    load: () => Promise.all([days.load(), detail.load()]),
  }
}
