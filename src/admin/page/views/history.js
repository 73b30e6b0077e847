/** Daily use of a client: bars, a table, and a file. */
import { clock, count, csvLine } from '../../../insight/format.js'
import { now } from '../live.js'
import { button, h, source, svg } from '../ui.js'

/** @import { ClientUsage, PlanTotals } from '../../../insight/api/usage.ts' */

const DAY_MS = 86_400_000
const HEIGHT = 100
const REFRESH_MS = 30_000

/** @param {number} atMs */
const dayOf = (atMs) => new Date(atMs).toISOString().slice(0, 10)

function dayTable() {
  const rows = h('tbody')
  const heads = ['Admitted', 'Refused by minute', 'by day', 'by ban'].map((head) =>
    h('th', { scope: 'col', class: 'number' }, head),
  )
  const head = h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Day (UTC)'), ...heads))
  const label = { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table by day' }
  const scroll = h('div', label, h('table', {}, head, rows))
  const node = h('details', {}, h('summary', {}, 'Table by day'), scroll)
  const draw = (/** @type {ClientUsage} */ { days }) => {
    const row = (/** @type {string} */ head, /** @type {PlanTotals} */ { admitted, refused }) => {
      const values = [admitted, refused.minute, refused.day, refused.ban]
      const cells = values.map((value) => h('td', { class: 'number' }, count(value)))
      return h('tr', {}, h('th', { scope: 'row' }, head), ...cells)
    }
    const made = days.toReversed().flatMap((day) => {
      const byPlan = (day.plans ?? []).map((one) => row(`${day.day}, plan ${one.plan}`, one))
      return [row(day.day, day), ...byPlan]
    })
    rows.replaceChildren(...made)
  }
  return { node, draw }
}

/** @param {string} client @param {() => number | undefined} limitNow per day */
export function history(client, limitNow) {
  let length = 30
  let askedMs = 0
  let drawn = ''
  /** @type {ClientUsage | undefined} */
  let usage
  const plot = h('div', { class: 'bars' })
  const table = dayTable()
  const path = () => {
    const from = dayOf(now() - (length - 1) * DAY_MS)
    return `/api/clients/${encodeURIComponent(client)}/usage?from=${from}&to=${dayOf(now())}`
  }
  const asked = source(path, (/** @type {ClientUsage} */ answer) => {
    usage = answer
    draw()
  })
  const load = () => {
    if (Date.now() - askedMs < REFRESH_MS) return undefined
    askedMs = Date.now()
    return asked.load()
  }
  const spans = [30, 400].map((days) => {
    const pick = () => {
      length = days
      askedMs = 0
      for (const one of spans) one.setAttribute('aria-pressed', String(one === chosen))
      return load()
    }
    const chosen = button(`${days} d`, pick, { 'aria-pressed': String(days === length) })
    return chosen
  })
  const draw = () => {
    const limit = limitNow()
    const signature = JSON.stringify([usage, limit])
    if (usage === undefined || signature === drawn) return
    drawn = signature
    plot.replaceChildren(...bars(usage, length, limit))
    table.draw(usage)
  }
  const save = button('CSV', () => usage && download(usage), { 'aria-label': 'History as CSV' })
  const buttons = h('p', { class: 'actions' }, ...spans, save)
  const node = h('section', {}, h('h2', {}, 'History'), buttons, asked.note, plot, table.node)
  return { node, load, draw }
}

/** One bar a day up to today, and today's limit as a line. @param {ClientUsage} usage @param {number} length @param {number | undefined} limit */
function bars({ days, to, asOf }, length, limit) {
  const most = days.reduce((one, other) => Math.max(one, other.admitted), 0)
  if (days.length === 0)
    return [
      h(
        'p',
        { class: 'empty' },
        'No request in these days. A day is here seconds after its first one.',
      ),
    ]
  // A line far above the bars would flatten them.
  const hasLine = limit !== undefined && limit < most * 4
  const top = (hasLine ? Math.max(most, limit) : most) * 1.05
  const y = (/** @type {number} */ value) => HEIGHT - (value / Math.max(top, 1)) * HEIGHT
  const last = Date.parse(to)
  const rects = days.map(({ day, admitted }) => {
    const x = length - 1 - (last - Date.parse(day)) / DAY_MS + 0.1
    return svg('rect', {
      x,
      y: y(admitted),
      width: 0.8,
      height: HEIGHT - y(admitted),
      class: 'admitted',
    })
  })
  const line = { x1: 0, x2: length, y1: y(limit ?? 0), y2: y(limit ?? 0), class: 'limit' }
  const best = days.find(({ admitted }) => admitted === most)
  const place = hasLine ? 'dashed' : 'above this'
  const limitText = limit === undefined ? '' : `; limit now ${count(limit)}, ${place}`
  const words = `Admitted per day, most ${count(most)} on ${best?.day}${limitText}`
  const shape = { viewBox: `0 0 ${length} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img' }
  const picture = svg('svg', { ...shape, 'aria-label': words }, ...rects)
  if (hasLine) picture.append(svg('line', line))
  const ends = [dayOf(last - (length - 1) * DAY_MS), `today, ${clock(Date.parse(asOf), now())}`]
  return [
    h('p', { class: 'muted' }, words),
    picture,
    h('p', { class: 'muted ends' }, ...ends.map((text) => h('span', {}, text))),
  ]
}

/** Offers a CSV file with the columns of /api/usage. @param {ClientUsage} usage */
function download({ client, from, to, days }) {
  const head = 'day,client,plan,admitted,refused_minute,refused_day,refused_ban'
  const lines = days.flatMap((each) =>
    (each.plans ?? [each]).map(({ plan, admitted, refused: { minute, day, ban } }) =>
      csvLine([each.day, client, plan, admitted, minute, day, ban]),
    ),
  )
  const text = `${[head, ...lines].join('\r\n')}\r\n`
  const url = URL.createObjectURL(new Blob([text], { type: 'text/csv' }))
  h('a', { href: url, download: `${client}-${from}-${to}.csv` }).click()
  setTimeout(() => URL.revokeObjectURL(url), 1_000)
}
