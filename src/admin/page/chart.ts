/** Lines over time by uPlot, each beside a sentence and a table that say the same. */
import { count, latency } from '../../insight/format.js'
import type uPlot from 'uplot'

/** uPlot is a classic script, loaded before this one. */
const Plot: typeof uPlot = Reflect.get(globalThis, 'uPlot')

type Attribute = string | number | boolean | ((event: Event) => unknown)

/** Creates an element; all text is set as text, never as HTML. An attribute on… is a listener. */
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Readonly<Record<string, Attribute>> = {},
  ...children: (Node | string | undefined)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), value)
    else if (value !== false) element.setAttribute(name, value === true ? '' : String(value))
  }
  element.append(...children.filter((child) => child !== undefined))
  return element
}

/** Writes the text only if it differs. */
function write(node: Node | undefined, text: string) {
  if (node !== undefined && node.textContent !== text) node.textContent = text
}

const shown = new Set<Chart>()
export const redrawCharts = () => shown.forEach((one) => one.build())
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redrawCharts)

/** Last index of the highest value. */
function peak(values: readonly (number | null)[]) {
  const most = values.reduce((one, other) => Math.max(one ?? -1, other ?? -1), -1) ?? -1
  return most < 0 ? undefined : values.lastIndexOf(most)
}

/** A line. short: what stands beside it; color: class of its swatch. */
interface Line {
  readonly label: string
  readonly short?: string
  readonly column: string
  readonly color: string
  readonly fill?: boolean
}

export interface Course {
  /** Unix second at each index. */
  readonly seconds: readonly number[]
  /** One value at each index; null: not measured, which is a gap and not 0. */
  readonly columns: Readonly<Record<string, readonly (number | null)[]>>
  /** Time at an index, in words. */
  readonly moment: (at: number) => string
  /** Label on the axis. */
  readonly tick: (second: number) => string
  /** Figure that sums up all values. */
  readonly sum: (values: readonly (number | null)[]) => number | null | undefined
  /** Words before the sum. */
  readonly inAll: string
  /** What a row of the table covers, such as a minute. */
  readonly part: string
  readonly partOf: (second: number) => string
  /** Text that says that it is empty; '': it is not. */
  readonly none: () => string
  /** Unix seconds of vertical lines. */
  readonly marks: () => number[]
  /** Used where ticks are whole days. */
  readonly date?: (second: number) => Date
}

const HEIGHT = 150
/** Width of the labels beside the lines. */
const LABELS_WIDTH = 132
const LEAST_SECONDS = 60

/** Index of the first second that was measured, but a minute before the last at the latest. */
function beginOf({ seconds, columns }: Course) {
  const last = (seconds.at(-1) ?? 0) - LEAST_SECONDS
  const all = Object.values(columns)
  const first = seconds.findIndex(
    (second, at) => second >= last || all.some((values) => (values[at] ?? null) !== null),
  )
  return Math.max(0, first)
}

/** Range from 0 to a round number, or the powers of ten around the values. */
function range(most: number | null, least: number | null, log: boolean): [number, number] {
  if (log) {
    const from = Math.floor(Math.log10(Math.max(least ?? 0.1, 0.01)))
    const to = Math.ceil(Math.log10(Math.max(most ?? 100, 1)))
    return [10 ** from, 10 ** Math.max(to, from + 1)]
  }
  return [0, Math.max((most ?? 0) * 1.1, 4)]
}

/** How lines of a colour are drawn; their swatches in style.css are alike. */
const strokes: Record<string, Partial<uPlot.Series>> = {
  day: { dash: [6, 3] },
  ban: { dash: [2, 3] },
  other: { width: 1 },
}

const seriesOf = ({ color, fill }: Line, stroke: string): uPlot.Series => ({
  stroke,
  width: 1.5,
  points: { show: false },
  ...strokes[color],
  ...(fill && { fill: stroke.replace('rgb(', 'rgba(').replace(')', ', 0.15)') }),
})

function powersOfTen(_plot: unknown, _axis: number, least: number, most: number) {
  const first = Math.round(Math.log10(least))
  const length = Math.round(Math.log10(most)) - first + 1
  return Array.from({ length }, (_, at) => 10 ** (first + at))
}

function drawMarks(plot: uPlot, marks: number[], color: string) {
  const { ctx, bbox } = plot
  for (const second of marks) {
    const x = Math.round(plot.valToPos(second, 'x', true))
    if (x < bbox.left) continue
    ctx.save()
    ctx.strokeStyle = color
    ctx.setLineDash([2, 2])
    ctx.beginPath()
    ctx.moveTo(x, bbox.top)
    ctx.lineTo(x, bbox.top + bbox.height)
    ctx.stroke()
    ctx.restore()
  }
}

const LABEL_HEIGHT = 16

export interface ChartOptions {
  readonly title: string
  readonly what: string
  readonly lines: readonly Line[]
  readonly log?: boolean
  readonly course: Course
}

export class Chart {
  readonly node
  readonly #given: ChartOptions
  readonly #say
  #swatches
  #values
  #labels
  #plotted
  #moment = h('span', { class: 'muted moment' })
  #spoken = h('p', { class: 'unseen', 'aria-live': 'polite' })
  #empty = h('p', { class: 'none muted', hidden: true })
  #rows = h('tbody')
  #details
  #plot: uPlot | undefined
  /** Index under the cursor; null: there is none, and the latest is shown. */
  #cursor: number | null = null
  #sizes = new ResizeObserver(() => this.#resize())

  constructor(given: ChartOptions) {
    const { title, lines, log, course } = given
    this.#given = given
    this.#say = log ? latency : count
    this.#swatches = lines.map(({ color }) =>
      h('i', { class: `swatch ${color}`, 'aria-hidden': 'true' }),
    )
    this.#values = lines.map(() => h('strong', { class: 'value' }, '–'))
    this.#labels = lines.map(({ label, short = label }, at) =>
      h('span', { class: 'label' }, this.#swatches[at], ` ${short} `, this.#values[at]),
    )
    this.#plotted = h('div', { class: 'plot', role: 'img', tabindex: 0, 'aria-label': title })
    this.#plotted.addEventListener('keydown', (event) => this.#step(event))
    const heads = lines.map(({ label }) =>
      h('th', { scope: 'col', class: 'number' }, log ? `${label}, highest` : label),
    )
    this.#details = h(
      'details',
      { ontoggle: () => this.#tabulate() },
      h('summary', {}, `Table by ${course.part}`),
      h(
        'table',
        { 'aria-label': `${title} by ${course.part}` },
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'UTC'), ...heads)),
        this.#rows,
      ),
    )
    this.node = h(
      'figure',
      { class: 'chart' },
      h('figcaption', {}, h('strong', {}, title), this.#moment),
      h('div', { class: 'frame' }, this.#plotted, this.#empty, ...this.#labels),
      this.#spoken,
      this.#details,
    )
    this.#sizes.observe(this.#plotted)
    shown.add(this)
  }

  /** Draws the chart anew, also after a change of colours. */
  build() {
    this.#plot?.destroy()
    this.#plot = undefined
    const width = this.#plotted.clientWidth
    if (width === 0) return
    this.#plot = new Plot(this.#options(width), this.#data(), this.#plotted)
  }

  #options(width: number): uPlot.Options {
    const { lines, log = false, course } = this.#given
    const say = this.#say
    const ink = this.#swatches.map((swatch) => getComputedStyle(swatch).color)
    const style = getComputedStyle(document.querySelector('header') ?? document.body)
    const axis: uPlot.Axis = {
      stroke: style.color,
      font: '11px system-ui',
      ticks: { show: false },
      grid: { stroke: style.borderTopColor, width: 1 },
    }
    const all: uPlot.Axis = { splits: powersOfTen, filter: (_plot, splits) => splits }
    return {
      width,
      height: HEIGHT,
      padding: [null, LABELS_WIDTH, null, null],
      legend: { show: false },
      cursor: { sync: { key: 'overview' }, drag: { x: false, y: false }, points: { size: 6 } },
      scales: {
        // The axis begins where the data does.
        x: { range: (_plot, least, most) => [course.seconds[beginOf(course)] ?? least, most] },
        y: { range: (_plot, least, most) => range(most, least, log), distr: log ? 3 : 1 },
      },
      axes: [
        { ...axis, size: 26, space: 60, values: (_plot, splits) => splits.map(course.tick) },
        { ...axis, size: 52, values: (_plot, splits) => splits.map(say), ...(log && all) },
      ],
      ...(course.date && { tzDate: course.date }),
      series: [{}, ...lines.map((line, at) => seriesOf(line, ink[at] ?? style.color))],
      hooks: {
        draw: [(plot) => drawMarks(plot, course.marks(), style.color)],
        setCursor: [
          ({ cursor: { idx } }) => {
            this.#cursor = idx ?? null
            this.#label()
          },
        ],
      },
    }
  }

  draw() {
    if (this.#plot === undefined || !this.node.isConnected) return
    this.#plot.setData(this.#data())
    this.#label()
    if (this.#cursor === null) this.#plotted.setAttribute('aria-label', this.#sentence())
    const none = this.#given.course.none()
    write(this.#empty, none)
    this.#empty.hidden = none === ''
    this.#tabulate()
  }

  #resize() {
    const width = this.#plotted.clientWidth
    if (this.#plot === undefined) this.build()
    else if (width > 0 && width !== this.#plot.width) this.#plot.setSize({ width, height: HEIGHT })
    this.draw()
  }

  #data() {
    const values = this.#given.lines.map((line) => this.#column(line))
    return [this.#given.course.seconds, ...values] as uPlot.AlignedData
  }

  #column({ column }: Line) {
    return this.#given.course.columns[column] ?? []
  }

  /** Writes the values, each beside the end of its line and none over another. */
  #label() {
    const at = this.#cursor
    const plot = this.#plot
    if (plot === undefined) return
    const places = this.#given.lines.map((line, nth) => {
      const values = this.#column(line)
      const value = at === null ? this.#given.course.sum(values) : values[at]
      write(this.#values[nth], this.#say(value))
      const end = values.findLast((value) => value !== null) ?? 0
      return { label: this.#labels[nth], top: end > 0 ? plot.valToPos(end, 'y') : Infinity }
    })
    const { offsetTop, clientHeight } = plot.over
    let free = offsetTop
    places.sort((one, other) => one.top - other.top)
    for (const [nth, { label, top }] of places.entries()) {
      const lowest = offsetTop + clientHeight - (places.length - nth) * LABEL_HEIGHT
      free = Math.min(Math.max(offsetTop + top - LABEL_HEIGHT / 2, free), lowest)
      label?.style.setProperty('top', `${free}px`)
      free += LABEL_HEIGHT
    }
    write(this.#moment, at === null ? '' : this.#given.course.moment(at))
  }

  #sentence() {
    const parts = this.#given.lines.map((line) => {
      const values = this.#column(line)
      const { inAll, sum, moment } = this.#given.course
      const best = peak(values)
      const most = best === undefined ? '' : `, peak ${this.#say(values[best])} at ${moment(best)}`
      return `${line.label} ${inAll} ${this.#say(sum(values))}${most}`
    })
    return `${this.#given.what}: ${parts.join('; ')}`
  }

  #step(event: KeyboardEvent) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -60, PageDown: 60 }[event.key]
    if (step === undefined || this.#plot === undefined) return
    event.preventDefault()
    const { seconds, moment } = this.#given.course
    const from = this.#cursor ?? seconds.length - 1
    const at = Math.max(beginOf(this.#given.course), Math.min(seconds.length - 1, from + step))
    this.#plot.setCursor({ left: this.#plot.valToPos(seconds[at] ?? 0, 'x'), top: 10 })
    this.#cursor = at
    const values = this.#given.lines.map(
      (line) => `${line.label} ${this.#say(this.#column(line)[at])}`,
    )
    write(this.#spoken, `${moment(at)}: ${values.join(', ')}`)
  }

  /** Fills the table: sums of counts, and the highest latencies. */
  #tabulate() {
    if (!this.#details.open) return
    const parts = new Map<string, (number | null)[]>()
    this.#given.course.seconds.forEach((second, at) => {
      const part = this.#given.course.partOf(second)
      const sums = parts.get(part) ?? this.#given.lines.map(() => null)
      this.#given.lines.forEach((line, nth) => {
        const value = this.#column(line)[at] ?? null
        const sum = sums[nth] ?? 0
        if (value !== null) sums[nth] = this.#given.log ? Math.max(sum, value) : sum + value
      })
      parts.set(part, sums)
    })
    const rows = [...parts].map(([name, sums]) => {
      const cells = sums.map((sum) => h('td', { class: 'number' }, this.#say(sum)))
      return h('tr', {}, h('th', { scope: 'row' }, name), ...cells)
    })
    this.#rows.replaceChildren(...rows.toReversed())
  }
}
