/** A small writer of line and bar charts as SVG: legible on light and dark pages, text as text, no dependency. */

export interface Line {
  /** Written at the end of the line. */
  readonly label: string
  /** Which colour, 0 to 3; lines of one thing keep theirs across panels. */
  readonly colour: number
  readonly points: readonly (readonly [x: number, y: number])[]
  /** Without marks, for many points. */
  readonly plain?: boolean
  readonly dashed?: boolean
}

export interface Axis {
  /** With its unit. */
  readonly title: string
  readonly scale: 'linear' | 'log'
  /** Ticks; linear axes may leave them out. */
  readonly ticks?: readonly number[]
  readonly format?: (value: number) => string
}

export interface Panel {
  readonly title: string
  readonly x: Axis
  readonly y: Axis
  readonly lines: readonly Line[]
}

const width = 760
const panelHeight = 320
const margin = { top: 44, right: 176, bottom: 52, left: 84 }
const plotWidth = width - margin.left - margin.right
const plotHeight = panelHeight - margin.top - margin.bottom

const colours = {
  light: ['#0b62c4', '#c2410c', '#15803d', '#7c3aed'],
  dark: ['#6cb0ff', '#ff9c66', '#6fd68f', '#c4a5ff'],
}

/** Panels stand below each other; `description` is for readers that do not see the picture. */
export function chart(panels: readonly Panel[], description: string): string {
  const drawn = panels.map(
    (panel, index) =>
      `<g transform="translate(0 ${index * panelHeight})">\n${drawPanel(panel)}\n</g>`,
  )
  const title = panels.map((panel) => panel.title).join('; ')
  return picture({ title, description, height: panels.length * panelHeight }, drawn)
}

export interface Bar {
  readonly label: string
  readonly value: number
  /** Which colour, 0 to 3. */
  readonly colour: number
}

const barHeight = 34
const barLeft = 330

/** One bar a line, in the order given; values are written behind their bars with `unit`. */
export function barChart(
  { title, unit, bars }: { title: string; unit: string; bars: readonly Bar[] },
  description: string,
): string {
  const most = Math.max(...bars.map(({ value }) => value))
  const drawn = bars.flatMap(({ label, value, colour }, index) => {
    const y = margin.top + index * barHeight
    const length = ((width - barLeft - 110) * value) / most
    return [
      text(barLeft - 10, y + 17, label, 'class="ink" text-anchor="end"'),
      `<rect class="c${colour}" x="${barLeft}" y="${y + 2}" width="${round(length)}" height="${barHeight - 12}" rx="3"/>`,
      text(barLeft + length + 8, y + 17, `${value.toFixed(1)} ${unit}`, 'class="faint"'),
    ]
  })
  const heading = text(20, 24, title, 'class="ink" font-weight="600" font-size="15"')
  const height = margin.top + bars.length * barHeight + 12
  return picture({ title, description, height }, [heading, ...drawn])
}

function picture(
  { title, description, height }: { title: string; description: string; height: number },
  drawn: readonly string[],
): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="13">
<title>${escape(title)}</title>
<desc>${escape(description)}</desc>
<style>
${style('light')}
@media (prefers-color-scheme: dark) {
${style('dark')}
}
</style>
<rect class="page" width="${width}" height="${height}"/>
${drawn.join('\n')}
</svg>
`
}

function style(theme: 'light' | 'dark'): string {
  const [page, ink, faint, grid] =
    theme === 'light'
      ? ['#ffffff', '#1f2328', '#59636e', '#d1d9e0']
      : ['#0d1117', '#f0f6fc', '#9198a1', '#30363d']
  return [
    `.page { fill: ${page} }`,
    `.ink { fill: ${ink} }`,
    `.faint { fill: ${faint} }`,
    `.grid { stroke: ${grid}; stroke-width: 1 }`,
    ...colours[theme].map(
      (colour, index) =>
        `.c${index} { fill: ${colour} } .l${index} { fill: none; stroke: ${colour}; stroke-width: 2 }`,
    ),
  ].join('\n')
}

function drawPanel(panel: Panel): string {
  const [x, y] = [placeOf(panel, panel.x, 0), placeOf(panel, panel.y, 1)]
  const px = (value: number): number => margin.left + x.share(value) * plotWidth
  const py = (value: number): number => margin.top + (1 - y.share(value)) * plotHeight
  const bottom = margin.top + plotHeight
  const right = margin.left + plotWidth
  return [
    text(margin.left, 22, panel.title, 'class="ink" font-weight="600" font-size="15"'),
    ...y.ticks.flatMap((tick) => [
      `<line class="grid" x1="${margin.left}" x2="${right}" y1="${round(py(tick))}" y2="${round(py(tick))}"/>`,
      text(margin.left - 8, py(tick) + 4.5, y.format(tick), 'class="faint" text-anchor="end"'),
    ]),
    ...x.ticks.flatMap((tick) => [
      `<line class="grid" x1="${round(px(tick))}" x2="${round(px(tick))}" y1="${bottom}" y2="${bottom + 5}"/>`,
      text(px(tick), bottom + 20, x.format(tick), 'class="faint" text-anchor="middle"'),
    ]),
    `<line class="grid" x1="${margin.left}" x2="${right}" y1="${bottom}" y2="${bottom}"/>`,
    text((margin.left + right) / 2, bottom + 40, panel.x.title, 'class="ink" text-anchor="middle"'),
    `<text class="ink" text-anchor="middle" transform="translate(16 ${round((margin.top + bottom) / 2)}) rotate(-90)">${escape(panel.y.title)}</text>`,
    ...panel.lines.map((line) => drawLine(line, { px, py })),
    ...drawLabels(panel.lines, { px, py }),
  ].join('\n')
}

interface Place {
  px(x: number): number
  py(y: number): number
}

function drawLine({ points, colour, plain, dashed }: Line, { px, py }: Place): string {
  const at = points.map(([x, y]) => `${round(px(x))},${round(py(y))}`)
  const dash = dashed ? ' stroke-dasharray="5 4"' : ''
  const line = `<polyline class="l${colour}"${dash} points="${at.join(' ')}"/>`
  if (plain) return line
  const marks = points.map(
    ([x, y]) => `<circle class="c${colour}" cx="${round(px(x))}" cy="${round(py(y))}" r="3.5"/>`,
  )
  return [line, ...marks].join('\n')
}

const labelGap = 17

/** Right of each line's last point, moved apart where they would overlap. */
function drawLabels(lines: readonly Line[], { px, py }: Place): string[] {
  const labels = lines
    .flatMap(({ label, colour, points }) => {
      const last = points.at(-1)
      return last ? [{ label, colour, x: px(last[0]) + 10, y: py(last[1]) + 4.5 }] : []
    })
    .sort((a, b) => a.y - b.y)
  labels.forEach((label, index) => {
    const above = labels[index - 1]
    if (above && label.y < above.y + labelGap) label.y = above.y + labelGap
  })
  const overflow = (labels.at(-1)?.y ?? 0) - (margin.top + plotHeight + 4.5)
  if (overflow > 0) for (const label of labels) label.y -= overflow
  return labels.map(({ label, colour, x, y }) => text(x, y, label, `class="c${colour}"`))
}

/** Where a value stands on the axis, 0 to 1, and the ticks. */
function placeOf({ lines }: Panel, axis: Axis, coordinate: 0 | 1) {
  const values = lines.flatMap(({ points }) => points.map((point) => point[coordinate]))
  const format = axis.format ?? ((value: number) => value.toLocaleString('en-US'))
  if (axis.scale === 'linear') {
    const most = Math.max(...values, ...(axis.ticks ?? []))
    const ticks = axis.ticks ?? linearTicks(most)
    const top = Math.max(most, ticks.at(-1) ?? 1)
    return { share: (value: number) => value / top, ticks, format }
  }
  const ticks = axis.ticks ?? decades(values)
  const [low, high] = [Math.min(...values, ...ticks), Math.max(...values, ...ticks)].map(Math.log)
  const span = (high ?? 1) - (low ?? 0) || 1
  return { share: (value: number) => (Math.log(value) - (low ?? 0)) / span, ticks, format }
}

/** About five ticks from 0 to at least `most`, at 1, 2 or 5 times a power of ten. */
function linearTicks(most: number): number[] {
  const rough = (most || 1) / 5
  const power = 10 ** Math.floor(Math.log10(rough))
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough
  const count = Math.ceil((most || 1) / step - 1e-9)
  return Array.from({ length: count + 1 }, (_, index) => Number((index * step).toPrecision(12)))
}

/** Powers of ten from below the least to above the greatest value. */
function decades(values: readonly number[]): number[] {
  const low = Math.floor(Math.log10(Math.min(...values)) + 1e-9)
  const high = Math.ceil(Math.log10(Math.max(...values)) - 1e-9)
  return Array.from({ length: Math.max(high - low, 1) + 1 }, (_, index) =>
    Number((10 ** (low + index)).toPrecision(6)),
  )
}

function text(x: number, y: number, content: string, attributes: string): string {
  return `<text x="${round(x)}" y="${round(y)}" ${attributes}>${escape(content)}</text>`
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}

function escape(content: string): string {
  return content.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
