/** The moment: rates, latencies, plans, and who is nearest to a limit. */
import { Chart, type ChartOptions, type Course } from '../page/chart.ts'
import { causes, compact, count, latency, percent, plural, rate } from '../../insight/format.js'
import { sum } from '../../insight/format.js'
import { columns, live, now, seconds } from '../page/live.ts'
import { Table, type Listing } from '../page/table.ts'
import { button, html, section, useAnswer, useEffect, useLive, useState } from '../page/ui.ts'
import { clientListing } from '../clients/view-rows.ts'
import { Shadows } from '../shadow/view.ts'
import type { Tick } from '../../insight/api/live.ts'
import type { Overview as Moment } from '../../insight/live/overview.ts'
import type { ClientsPage } from '../clients/operations.ts'
import { register } from '../page/places.ts'

/** Number with its unit and window, and its parts. */
const tile = (value: string, unit: string, parts: string | null) => html`<div class="tile">
  <p><strong class="value">${value}</strong> <span>${unit}</span></p>
  <p><span class="muted">${parts}</span></p>
</div>`

const perSecond = (value: number | undefined) => rate(value) + (value === undefined ? '' : '/s')

function refusedTile(latest: Tick | null) {
  if (latest === null) return tile(rate(null), 'refused', null)
  const all = sum(latest.refused)
  const share = latest.requests > 0 ? ` (${percent(all / latest.requests)})` : ''
  const parts = causes.map((cause) => `${cause} ${count(latest.refused[cause])}`)
  return tile(perSecond(all), `refused${share}`, parts.join(' · '))
}

function bannedTile(overview: Moment | null) {
  const { bannedKeys = null, limitedClients = null, clients = null } = overview?.counts ?? {}
  const limited = `${count(limitedClients)} of ${compact(clients)} refused for quota, 10 s`
  return tile(count(bannedKeys), bannedKeys === 1 ? 'key banned now' : 'keys banned now', limited)
}

function Tiles() {
  useLive()
  const { latest, overview } = live
  const wanted = overview?.workers.wanted
  const who =
    wanted === undefined ? '' : `, ${wanted === 1 ? 'one process' : plural(wanted, 'worker')}`
  const inFlight = latest && `in flight ${count(latest.inFlight)}`
  const backend = latest && `p99 backend ${latency(latest.backendMs.p99)}`
  return html`<div class="tiles">
    ${tile(perSecond(latest?.requests), `requests${who}`, inFlight)}
    ${refusedTile(latest)}
    ${tile(latency(latest?.gatewayMs.p99), 'p99 gateway, 10 s', backend)}
    ${bannedTile(overview)}
  </div>`
}

const utc = (second: number, length: number) =>
  new Date(second * 1_000).toISOString().slice(11, 11 + length)

/** Last index that was measured, unless that is long ago. */
function latestPlace() {
  const last = seconds.length - 1
  return live.state !== 'stale' && columns['requests']?.[last] === null ? last - 1 : last
}

/** The latest 15 minutes. */
const latest: Course = {
  seconds,
  columns,
  moment: (at) => `${utc(seconds[at] ?? 0, 8)}Z`,
  tick: (second) => utc(second, second % 60 === 0 ? 5 : 8),
  sum: (values) => values[latestPlace()],
  inAll: 'now',
  part: 'minute',
  partOf: (second) => utc(second, 5),
  none: () => (columns['requests']?.some(Boolean) ? '' : 'No requests in 15 min'),
  // Marks show when a configuration was taken.
  marks: () => {
    const from = now() / 1_000 - seconds.length
    const at = (live.overview?.reloads ?? []).map((reload) => Date.parse(reload.at) / 1_000)
    return at.filter((second) => second >= from)
  },
}

/** A chart that lasts as long as the page; place: puts it into the box of the view. name: of its tab on a phone. */
function named(name: string, given: Omit<ChartOptions, 'course'>) {
  const chart = new Chart({ ...given, course: latest })
  return { name, chart, place: (box: HTMLElement | null) => box?.append(chart.node) }
}
const charts = [
  named('Requests', {
    title: 'Requests/s',
    what: 'Requests per second',
    lines: [{ label: 'all', column: 'requests', color: 'admitted', fill: true }],
  }),
  named('Refused', {
    title: 'Refused/s by cause',
    what: 'Refused per second',
    lines: causes.map((by) => ({ label: by, column: `refused.${by}`, color: by })),
  }),
  named('Latency', {
    title: 'Latency, log (gw gateway, be backend)',
    what: 'Latency of the last 10 seconds',
    log: true,
    lines: [
      { label: 'gateway p50', short: 'gw p50', column: 'gatewayMs.p50', color: 'admitted' },
      { label: 'gateway p99', short: 'gw p99', column: 'gatewayMs.p99', color: 'minute' },
      { label: 'backend p50', short: 'be p50', column: 'backendMs.p50', color: 'day' },
      { label: 'backend p99', short: 'be p99', column: 'backendMs.p99', color: 'ban' },
    ],
  }),
]

/** A phone shows the one that is picked. */
function Charts() {
  useLive()
  const [picked, pick] = useState(0)
  useEffect(() => charts.forEach(({ chart }) => chart.draw()))
  return html`<section aria-label="Charts">
    <div class="tabs" role="group" aria-label="Chart">
      ${charts.map(({ name }, at) =>
        button(name, () => pick(at), { 'aria-pressed': at === picked }),
      )}
    </div>
    <div class="charts">
      ${charts.map(
        ({ place }, at) => html`<div class=${at === picked ? 'picked' : ''} ref=${place}></div>`,
      )}
    </div>
  </section>`
}

type Plan = Moment['plans'][number]
const shadowText = ({ shadowRefused, shadowUnjudged }: Plan) =>
  shadowRefused === null
    ? 'no shadow limits'
    : `${count(shadowRefused)}${shadowUnjudged ? `, ${count(shadowUnjudged)} not judged` : ''}`

const shadow = ['Shadow would refuse', shadowText, 'number'] as const
const plans: Listing<Plan> = {
  caption: 'Plans',
  idOf: ({ plan }) => plan,
  empty: 'The configuration has no plans.',
  columns: [
    ['Plan', ({ plan }) => plan, 'title'],
    ['Clients', ({ clients }) => compact(clients), 'number'],
    ['Admitted today', ({ admittedToday }) => compact(admittedToday), 'number'],
    ['Over 80%', ({ over80 }) => count(over80), 'number'],
  ],
}

function Plans() {
  useLive()
  const rows = live.overview?.plans
  const isTried = rows?.some(({ shadowRefused }) => shadowRefused !== null) === true
  const columns = isTried ? [...plans.columns, shadow] : plans.columns
  return section(
    'Plans',
    html`<${Table} ...${plans} columns=${columns} rows=${rows} />`,
    html`<p class="muted">
      Over 80%: clients of which this gateway has seen so much of a window used, or handed out to processes.
    </p>`,
  )
}

const nearest = clientListing('Nearest their limits', 'No client has asked since the start.')

function Nearest() {
  const { answer, note } = useAnswer<ClientsPage>('/api/clients?sort=nearest')
  const rows = answer?.clients.filter(({ share }) => share !== 0).slice(0, 10)
  return section(nearest.caption, note, html`<${Table} ...${nearest} rows=${rows} />`)
}

const Overview = () => html`<${Tiles} /><${Charts} /><${Nearest} /><${Plans} /><${Shadows} />`

register({ path: '/', name: 'Overview', at: 1, key: 'o', Whole: Overview })
