/** The moment: rates, latencies, plans, and who is nearest to a limit. */
import { Chart } from '../chart.js'
import { compact, count, latency, percent, rate } from '../../../insight/format.js'
import { columns, live, now, seconds } from '../live.js'
import { Table } from '../table.js'
import { button, h, source, write } from '../ui.js'
import { clientColumns } from './parts.js'
import { shadows } from './shadow.js'

/** @import { View } from '../main.js' */
/** @import { Course } from '../plot.js' */
/** @import { PlanOverview } from '../../../insight/api/live.ts' */
/** @import { ClientRow, ClientsPage } from '../../../insight/api/usage.ts' */

const NEAREST = 10

/** Number with its unit and window, and its parts. @param {string} what */
function tile(what) {
  const value = h('strong', { class: 'value' }, '–')
  const unit = h('span', {}, what)
  const parts = h('span', { class: 'muted' })
  return {
    node: h('div', { class: 'tile' }, h('p', {}, value, ' ', unit), h('p', {}, parts)),
    value,
    unit,
    parts,
  }
}

function tiles() {
  const requests = tile('requests')
  const refused = tile('refused')
  const slow = tile('p99 gateway, 10 s')
  const banned = tile('keys banned now')
  const node = h(
    'div',
    { class: 'tiles' },
    ...[requests, refused, slow, banned].map(({ node }) => node),
  )
  const draw = () => {
    const { latest, overview } = live
    if (latest !== null) {
      const { minute, day, ban, other } = latest.refused
      const all = minute + day + ban + other
      write(requests.value, `${rate(latest.requests)}/s`)
      write(requests.parts, `in flight ${count(latest.inFlight)}`)
      write(refused.value, `${rate(all)}/s`)
      write(
        refused.unit,
        `refused${latest.requests > 0 ? ` (${percent(all / latest.requests)})` : ''}`,
      )
      write(
        refused.parts,
        `minute ${count(minute)} · day ${count(day)} · ban ${count(ban)} · other ${count(other)}`,
      )
      write(slow.value, latency(latest.gatewayMs.p99))
      write(slow.parts, `p99 backend ${latency(latest.backendMs.p99)}`)
    }
    if (overview === null) return
    const { counts, workers } = overview
    write(
      requests.unit,
      `requests, ${workers.wanted === 1 ? 'one process' : `${workers.wanted} workers`}`,
    )
    write(banned.value, count(counts.bannedKeys))
    write(
      banned.parts,
      `${count(counts.limitedClients)} of ${compact(counts.clients)} ${counts.clients === 1 ? 'client' : 'clients'} limited, 10 s`,
    )
  }
  return { node, draw }
}

/** @param {number} second @param {number} length */
const utc = (second, length) => new Date(second * 1_000).toISOString().slice(11, 11 + length)

/** Last index that was measured, unless that is long ago. */
function latestPlace() {
  const last = seconds.length - 1
  return live.state !== 'stale' && columns.requests[last] === null ? last - 1 : last
}

/** The latest 15 minutes. @type {Course} */
const latest = {
  seconds,
  columns,
  moment: (at) => `${utc(seconds[at] ?? 0, 8)}Z`,
  tick: (second) => utc(second, 5),
  sum: (values) => values[latestPlace()],
  inAll: 'now',
  part: 'minute',
  partOf: (second) => utc(second, 5),
  isEmpty: () => !columns.requests.some((value) => value !== null && value > 0),
  none: 'No requests in 15 min',
  // Marks show when a configuration was taken.
  marks: () => {
    const from = now() / 1_000 - seconds.length
    const at = (live.overview?.reloads ?? []).map((reload) => Date.parse(reload.at) / 1_000)
    return at.filter((second) => second >= from)
  },
}

function charts() {
  const all = [
    new Chart({
      title: 'Requests/s, 15 min',
      what: 'Requests per second',
      course: latest,
      lines: [{ label: 'all', column: 'requests', color: 'admitted', fill: true }],
    }),
    new Chart({
      title: 'Refused/s by window',
      what: 'Refused per second',
      course: latest,
      lines: [
        { label: 'minute', column: 'minute', color: 'minute' },
        { label: 'day', column: 'day', color: 'day', dash: [6, 3] },
        { label: 'ban', column: 'ban', color: 'ban', dash: [2, 3] },
        { label: 'other (right)', column: 'other', color: 'other', side: true, width: 1 },
      ],
    }),
    new Chart({
      title: 'Latency, log',
      what: 'Latency of the last 10 seconds',
      course: latest,
      log: true,
      lines: [
        { label: 'gateway p50', column: 'gatewayP50', color: 'admitted', width: 1 },
        { label: 'p99', column: 'gatewayP99', color: 'admitted', width: 2 },
        { label: 'backend p50', column: 'backendP50', color: 'day', width: 1, dash: [6, 3] },
        { label: 'p99', column: 'backendP99', color: 'day', width: 2, dash: [6, 3] },
      ],
    }),
  ]
  const names = ['Requests', 'Refused', 'Latency']
  const pick = (/** @type {number} */ picked) => {
    all.forEach(({ node }, at) => node.classList.toggle('picked', at === picked))
    tabs.forEach((tab, at) => tab.setAttribute('aria-pressed', String(at === picked)))
  }
  const tabs = names.map((name, at) => button(name, () => pick(at)))
  pick(0)
  return {
    node: h(
      'section',
      { 'aria-label': 'Charts' },
      h('div', { class: 'tabs', role: 'group', 'aria-label': 'Chart' }, ...tabs),
      h('div', { class: 'charts' }, ...all.map(({ node }) => node)),
    ),
    draw: () => all.forEach((one) => one.draw()),
    close: () => all.forEach((one) => one.close()),
  }
}

/** @param {PlanOverview} plan */
const shadowText = ({ shadowRefused, shadowUnjudged }) =>
  `${count(shadowRefused)}${shadowUnjudged ? `, ${count(shadowUnjudged)} not judged` : ''}`

/** @returns {View} */
export function overview() {
  const numbers = tiles()
  const lines = charts()
  const plans = new Table({
    caption: 'Plans',
    idOf: (/** @type {PlanOverview} */ { plan }) => plan,
    empty: 'The configuration has no plans.',
    columns: [
      { head: 'Plan', kind: 'title', text: ({ plan }) => plan },
      { head: 'Clients', number: true, text: ({ clients }) => compact(clients) },
      {
        head: 'Admitted today',
        number: true,
        text: ({ admittedToday }) => compact(admittedToday),
      },
      { head: 'Over 80% used or handed out', number: true, text: ({ over80 }) => count(over80) },
      { head: 'Shadow', number: true, text: shadowText },
    ],
  })
  const nearest = new Table({
    caption: 'Nearest their limits',
    idOf: (/** @type {ClientRow} */ { id }) => id,
    empty: 'No client has made a request since this gateway started.',
    columns: clientColumns,
  })
  const near = source('/api/clients?sort=nearest', (/** @type {ClientsPage} */ { clients }) =>
    nearest.update(clients.filter(({ share }) => share !== 0).slice(0, NEAREST)),
  )
  const shadow = shadows()
  const own = h('p', { class: 'muted' }, 'Over 80% and shadow are what this gateway has seen.')
  const content = [
    numbers.node,
    lines.node,
    h(
      'section',
      {},
      h('h2', {}, 'Nearest their limits'),
      near.note,
      nearest.node,
      h('p', {}, h('a', { href: '#/clients' }, 'All clients')),
    ),
    h('section', {}, h('h2', {}, 'Plans'), plans.node, own),
    shadow.node,
  ]
  const tick = () => {
    if (live.paused) return
    numbers.draw()
    lines.draw()
    if (live.overview !== null) plans.update(live.overview.plans)
  }
  return {
    title: 'Overview',
    content,
    tick,
    load: () => Promise.all([near.load(), shadow.load()]),
    close: lines.close,
  }
}
