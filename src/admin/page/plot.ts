/** Options of uPlot for a chart. */
import type uPlot from 'uplot'

/** A line. short: what stands beside it; color: class of its swatch. */
export interface Line {
  readonly label: string
  readonly short?: string
  readonly column: string
  readonly color: string
  readonly fill?: boolean
}

/** Values over time. */
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
  readonly isEmpty: () => boolean
  /** Text shown where it is empty. */
  readonly none: string
  /** Unix seconds of vertical lines. */
  readonly marks: () => number[]
  /** Used where ticks are whole days. */
  readonly date?: (second: number) => Date
}

export const HEIGHT = 150
/** Width of the labels beside the lines. */
const LABELS_WIDTH = 132
const LEAST_SECONDS = 60

/** Index of the first second that was measured, but a minute before the last at the latest. */
export function beginOf({ seconds, columns }: Course) {
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

interface Drawn {
  readonly lines: readonly Line[]
  readonly log: boolean
  readonly course: Course
  readonly width: number
  readonly say: (value: number) => string
  readonly swatches: readonly Element[]
  readonly moved: (at: number | null) => void
}

export function plotOptions(drawn: Drawn): uPlot.Options {
  const { lines, log, course, width, swatches, moved } = drawn
  const ink = swatches.map((swatch) => getComputedStyle(swatch).color)
  const style = getComputedStyle(document.querySelector('header') ?? document.body)
  return {
    width,
    height: HEIGHT,
    padding: [null, LABELS_WIDTH, null, null],
    legend: { show: false },
    cursor: { sync: { key: 'overview' }, drag: { x: false, y: false }, points: { size: 6 } },
    scales: scalesOf(log, course),
    axes: axesOf(drawn, style),
    ...(course.date && { tzDate: course.date }),
    series: [{}, ...lines.map((line, at) => seriesOf(line, ink[at] ?? style.color))],
    hooks: {
      draw: [(plot) => drawMarks(plot, course.marks(), style.color)],
      setCursor: [({ cursor: { idx } }) => moved(idx ?? null)],
    },
  }
}

function scalesOf(log: boolean, course: Course): uPlot.Scales {
  /** The axis begins where the data does. */
  const x: uPlot.Scale = {
    time: true,
    range: (_plot, least, most) => [course.seconds[beginOf(course)] ?? least, most],
  }
  return { x, y: { range: (_plot, least, most) => range(most, least, log), distr: log ? 3 : 1 } }
}

function axesOf({ log, say, course }: Drawn, style: CSSStyleDeclaration): uPlot.Axis[] {
  const axis: uPlot.Axis = {
    stroke: style.color,
    font: '11px system-ui',
    ticks: { show: false },
    grid: { stroke: style.borderTopColor, width: 1 },
  }
  const all: uPlot.Axis = { splits: powersOfTen, filter: (_plot, splits) => splits }
  return [
    { ...axis, size: 26, space: 60, values: (_plot, splits) => splits.map(course.tick) },
    { ...axis, size: 52, values: (_plot, splits) => splits.map(say), ...(log && all) },
  ]
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
