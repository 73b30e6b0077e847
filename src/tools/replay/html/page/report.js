/** Draws the plots of a replay's report, and sorts, filters and saves its table. All numbers are in the document already. */
import { Chart, h, redrawCharts } from '../../../../admin/page/chart.ts'
import { count, csvLine, plural } from '../../../../insight/format.js'

/** @import uPlot from 'uplot' */
/** @import { ChartOptions, Course } from '../../../../admin/page/chart.ts' */
/** @import { ReplayReport } from '../../report.ts' */

const HOUR_S = 3_600
const DAY_S = 86_400

/** @type {ReplayReport['overTime']} */
const overTime = JSON.parse(document.getElementById('over-time')?.textContent ?? '')
const firstSecond = overTime.from === null ? 0 : Date.parse(overTime.from) / 1_000
const placed = overTime.admitted.map((_, at) => firstSecond + at * overTime.stepSeconds)
const isLong = placed.length * overTime.stepSeconds > DAY_S
const partSize = placed.length * overTime.stepSeconds > 4 * DAY_S ? DAY_S : HOUR_S

/** @param {number} second @param {number} from @param {number} to */
const utcText = (second, from, to) =>
  new Date(second * 1_000).toISOString().slice(from, to).replace('T', ' ')

/** @param {Record<string, readonly number[]>} columns @returns {Course} */
const courseOf = (columns) => ({
  seconds: placed,
  columns,
  moment: (at) => `${utcText(placed[at] ?? 0, 0, overTime.stepSeconds < 60 ? 19 : 16)}Z`,
  tick: (second) => utcText(second, isLong ? 5 : 11, second % DAY_S === 0 && isLong ? 10 : 16),
  sum: (values) => values.reduce((sum, value) => (sum ?? 0) + (value ?? 0), 0),
  inAll: 'in all',
  part: partSize === DAY_S ? 'day' : 'hour',
  partOf: (second) => utcText(second, 0, partSize === DAY_S ? 10 : 13),
  none: () => (Object.values(columns).flat().some(Boolean) ? '' : 'None'),
  marks: () => [],
  date: (second) =>
    /** @type {typeof uPlot} */ (/** @type {any} */ (globalThis)['uPlot']).tzDate(
      new Date(second * 1_000),
      'Etc/UTC',
    ),
})

/** @param {string} title @param {ChartOptions['lines']} lines @param {Record<string, readonly number[]>} columns */
const chartOf = (title, lines, columns) =>
  new Chart({ title, what: `${title} over time`, lines, course: courseOf(columns) })

/** @param {string} name */
const lineOf = (name) => ({ label: name, column: name, color: name })

const charts = () => {
  const { admitted, before, from: _from, stepSeconds: _step, ...refused } = overTime
  const causes = /** @type {(keyof typeof refused)[]} */ (Object.keys(refused))
  if (before === undefined)
    return [
      chartOf('Admitted', [{ ...lineOf('admitted'), fill: true }], { admitted }),
      chartOf('Refused', causes.map(lineOf), refused),
    ]
  return causes.map((by) => {
    const lines = [
      { ...lineOf('old'), color: 'other' },
      { ...lineOf(by), label: 'new' },
    ]
    return chartOf(`Refused by ${by}`, lines, { old: before[by], [by]: refused[by] })
  })
}

/** Value of a cell for sorting and for the file: digits without commas, times as the log has them. @param {Element | undefined} cell */
function plain(cell) {
  const at = cell?.querySelector('time')?.dateTime
  const text = cell?.textContent ?? ''
  if (at !== undefined || !cell?.classList.contains('number')) return at ?? text
  const digits = text.replaceAll(',', '').replace('+', '')
  return digits === '–' ? '' : Number(digits)
}

/** @param {string | number} one @param {string | number} other */
const compare = (one, other) =>
  typeof one === 'number' && typeof other === 'number'
    ? one - other
    : String(one).localeCompare(String(other), 'en')

/** @param {HTMLElement} box */
function makeTable(box) {
  const body = box.querySelector('tbody')
  const rows = [...(body?.rows ?? [])]
  const heads = [...box.querySelectorAll('th')]
  const names = heads.map((head) => head.textContent)
  const found = h('span', { class: 'muted', role: 'status' })
  const search = h('input', { type: 'search', autocomplete: 'off', spellcheck: 'false' })
  heads.forEach((head, at) => {
    const isNumber = head.classList.contains('number')
    const order = () => {
      const turn = head.ariaSort ?? (isNumber ? 'ascending' : 'descending')
      const next = turn === 'ascending' ? 'descending' : 'ascending'
      for (const each of heads) each.removeAttribute('aria-sort')
      head.setAttribute('aria-sort', next)
      const sign = next === 'ascending' ? 1 : -1
      rows.sort((one, other) => sign * compare(plain(one.cells[at]), plain(other.cells[at])))
      body?.append(...rows)
    }
    head.replaceChildren(h('button', { type: 'button', onclick: order }, names[at]))
  })
  search.addEventListener('input', () => {
    const wanted = search.value.trim().toLowerCase()
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted)
    const shown = rows.filter(({ hidden }) => !hidden).length
    found.textContent = wanted === '' ? '' : `${count(shown)} of ${plural(rows.length, 'client')}`
  })
  const save = () => {
    const lines = rows
      .filter(({ hidden }) => !hidden)
      .map((row) => csvLine([...row.cells].map(plain)))
    const url = URL.createObjectURL(
      new Blob([[csvLine(names), ...lines, ''].join('\r\n')], { type: 'text/csv' }),
    )
    h('a', { href: url, download: 'replay-clients.csv' }).click()
    setTimeout(() => URL.revokeObjectURL(url), 1_000)
  }
  const csv = h('button', { type: 'button', onclick: save }, 'CSV')
  box.before(h('div', { class: 'filters' }, h('label', {}, 'Filter ', search), csv, found))
}

const drawn = charts()
document.getElementById('charts')?.replaceChildren(...drawn.map(({ node }) => node))
const clientTable = document.getElementById('clients')
if (clientTable !== null) makeTable(clientTable)
// Printing changes the colours and the width.
for (const change of ['beforeprint', 'afterprint']) addEventListener(change, redrawCharts)
