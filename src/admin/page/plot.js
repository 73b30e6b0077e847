/** Options of uPlot for a chart. */

/** @import uPlot from 'uplot' */
/** short: what stands beside the line. color: class of its swatch. @typedef {{ label: string, short?: string, column: string, color: string, fill?: boolean }} Line */

/**
 * Values over time.
 * @typedef {object} Course
 * @property {readonly number[]} seconds Unix second at each index
 * @property {Readonly<Record<string, readonly (number | null)[]>>} columns one value at each index; null: not measured, which is a gap and not 0
 * @property {(at: number) => string} moment time at an index, in words
 * @property {(second: number) => string} tick label on the axis
 * @property {(values: readonly (number | null)[]) => number | null | undefined} sum figure that sums up all values
 * @property {string} inAll words before the sum
 * @property {string} part such as minute: what a row of the table covers
 * @property {(second: number) => string} partOf
 * @property {() => boolean} isEmpty
 * @property {string} none text shown then
 * @property {() => number[]} marks Unix seconds of vertical lines
 * @property {(second: number) => Date} [date] for ticks of whole days
 */

export const HEIGHT = 150
/** Width of the labels beside the lines. */
const LABELS_WIDTH = 132
const LEAST_SECONDS = 60

/** Index of the first second that was measured, but a minute before the last at the latest. @param {Course} course */
export function beginOf({ seconds, columns }) {
  const last = (seconds.at(-1) ?? 0) - LEAST_SECONDS
  const all = Object.values(columns)
  const first = seconds.findIndex(
    (second, at) => second >= last || all.some((values) => (values[at] ?? null) !== null),
  )
  return Math.max(0, first)
}

/** Range from 0 to a round number, or the powers of ten around the values. @param {number | null} most @param {number | null} least @param {boolean} log */
function range(most, least, log) {
  if (log) {
    const from = Math.floor(Math.log10(Math.max(least ?? 0.1, 0.01)))
    const to = Math.ceil(Math.log10(Math.max(most ?? 100, 1)))
    return /** @type {[number, number]} */ ([10 ** from, 10 ** Math.max(to, from + 1)])
  }
  return /** @type {[number, number]} */ ([0, Math.max((most ?? 0) * 1.1, 4)])
}

/**
 * @param {{ lines: Line[], log: boolean, course: Course, width: number, say: (value: number) => string, swatches: Element[], moved: (at: number | null) => void }} given
 * @returns {uPlot.Options}
 */
export function plotOptions({ lines, log, course, width, say, swatches, moved }) {
  const ink = swatches.map((swatch) => getComputedStyle(swatch).color)
  const style = getComputedStyle(document.querySelector('header') ?? document.body)
  return {
    width,
    height: HEIGHT,
    padding: [null, LABELS_WIDTH, null, null],
    legend: { show: false },
    cursor: { sync: { key: 'overview' }, drag: { x: false, y: false }, points: { size: 6 } },
    scales: scalesOf(log, course),
    axes: axesOf({ log, say, course, style }),
    ...(course.date && { tzDate: course.date }),
    series: [{}, ...lines.map((line, at) => seriesOf(line, ink[at] ?? style.color))],
    hooks: {
      draw: [(plot) => drawMarks(plot, course.marks(), style.color)],
      setCursor: [({ cursor: { idx } }) => moved(idx ?? null)],
    },
  }
}

/** @param {boolean} log @param {Course} course @returns {uPlot.Scales} */
function scalesOf(log, course) {
  /** The axis begins where the data does. @type {uPlot.Scale} */
  const x = {
    time: true,
    range: (_plot, least, most) => [course.seconds[beginOf(course)] ?? least, most],
  }
  /** @type {uPlot.Scale} */
  const y = { range: (_plot, least, most) => range(most, least, log), ...(log && { distr: 3 }) }
  return { x, y }
}

/** @param {{ log: boolean, say: (value: number) => string, course: Course, style: CSSStyleDeclaration }} how @returns {uPlot.Axis[]} */
function axesOf({ log, say, course, style }) {
  /** @type {uPlot.Axis} */
  const axis = {
    stroke: style.color,
    font: '11px system-ui',
    ticks: { show: false },
    grid: { stroke: style.borderTopColor, width: 1 },
  }
  /** @type {uPlot.Axis} */
  const amounts = { ...axis, size: log ? 56 : 44, values: (_plot, splits) => splits.map(say) }
  return [
    { ...axis, size: 26, space: 60, values: (_plot, splits) => splits.map(course.tick) },
    { ...amounts, ...(log && { splits: powersOfTen, filter: (_plot, splits) => splits }) },
  ]
}

/** How lines of a colour are drawn; their swatches in style.css are alike. @type {Record<string, Partial<uPlot.Series>>} */
const strokes = { day: { dash: [6, 3] }, ban: { dash: [2, 3] }, other: { width: 1 } }

/** @param {Line} line @param {string} stroke @returns {uPlot.Series} */
const seriesOf = ({ color, fill }, stroke) => ({
  stroke,
  width: 1.5,
  points: { show: false },
  ...strokes[color],
  ...(fill && { fill: stroke.replace('rgb(', 'rgba(').replace(')', ', 0.15)') }),
})

/** @param {unknown} _plot @param {number} _axis @param {number} least @param {number} most */
function powersOfTen(_plot, _axis, least, most) {
  const first = Math.round(Math.log10(least))
  const length = Math.round(Math.log10(most)) - first + 1
  return Array.from({ length }, (_, at) => 10 ** (first + at))
}

/** @param {uPlot} plot @param {number[]} marks @param {string} color */
function drawMarks(plot, marks, color) {
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
