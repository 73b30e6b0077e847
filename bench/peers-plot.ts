/** The picture of the main table: CPU per request of the gateway and of what could stand in its place. */
import type { Row } from './report.ts'
import { lowerQuartile } from './statistics.ts'

/** Scenario, its words in the picture, and its colour: ours, other ways to do the job, and nginx without the job. */
const shown: readonly (readonly [name: string, label: string, colour: number])[] = [
  ['nginx', 'nginx, proxy_pass alone, no limits', 2],
  ['gateway-direct-redis', 'Tollgate + Redis', 0],
  ['gateway-direct-embedded', 'Tollgate, embedded store', 0],
  ['nginx-lua', 'nginx + Lua + Redis', 1],
  ['fastify', 'fastify + rate-limit, one window', 1],
]

const [width, top, barHeight, barLeft] = [760, 44, 34, 330]
const [light, dark] = [
  '.page{fill:#ffffff} .ink{fill:#1f2328} .c0{fill:#0b62c4} .c1{fill:#c2410c} .c2{fill:#15803d}',
  '.page{fill:#0d1117} .ink{fill:#f0f6fc} .c0{fill:#6cb0ff} .c1{fill:#ff9c66} .c2{fill:#6fd68f}',
]

/** An SVG with one bar a line, legible on light and dark pages; undefined unless every row of the picture was measured. */
export function peersPlot(rows: readonly Row[]): string | undefined {
  const bars = shown.flatMap(([name, label, colour]) => {
    const row = rows.find(({ scenario, failure }) => scenario.name === name && !failure)
    const costs = row?.rounds.map(({ totalMicroseconds = NaN }) => totalMicroseconds)
    return costs ? [{ label, colour, value: lowerQuartile(costs) }] : []
  })
  if (bars.length < shown.length) return undefined
  const most = Math.max(...bars.map(({ value }) => value))
  const drawn = bars.flatMap(({ label, value, colour }, index) => {
    const y = top + index * barHeight
    const length = Math.round(((width - barLeft - 110) * value) / most)
    return [
      text(barLeft - 10, y + 17, label, 'class="ink" text-anchor="end"'),
      `<rect class="c${colour}" x="${barLeft}" y="${y + 2}" width="${length}" height="${barHeight - 12}" rx="3"/>`,
      text(barLeft + length + 8, y + 17, `${value.toFixed(1)} µs`, 'class="ink"'),
    ]
  })
  const title = 'CPU per request, gateway and Redis together'
  const height = top + bars.length * barHeight + 12
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" font-family="system-ui, 'DejaVu Sans', sans-serif" font-size="13">
<title>${title}</title>
<desc>${bars.map(({ label, value }) => `${label}: ${value.toFixed(1)} µs`).join('; ')}</desc>
<style>
${light}
@media (prefers-color-scheme: dark) { ${dark} }
</style>
<rect class="page" width="${width}" height="${height}"/>
${text(20, 24, title, 'class="ink" font-weight="600" font-size="15"')}
${drawn.join('\n')}
</svg>
`
}

const text = (x: number, y: number, content: string, attributes: string): string =>
  `<text x="${x}" y="${y}" ${attributes}>${content}</text>`
