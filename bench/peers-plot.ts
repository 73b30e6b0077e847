/** The picture of the main table: CPU per request of the gateway and of what could stand in its place. */
import { barChart, type Bar } from './growth/svg.ts'
import { median } from './markdown.ts'
import { totalMicroseconds, type Row } from './report.ts'

/** Scenario, its words in the picture, and its colour: ours, other ways to do the job, and nginx without the job. */
const shown: readonly (readonly [name: string, label: string, colour: number])[] = [
  ['nginx', 'nginx, proxy_pass alone, no limits', 2],
  ['gateway-direct-redis', 'Tollgate + Redis', 0],
  ['gateway-direct-embedded', 'Tollgate, embedded store', 0],
  ['nginx-lua', 'nginx + Lua + Redis', 1],
  ['fastify', 'fastify + rate-limit, one window', 1],
  ['plain', 'http-proxy-3 + rate-limiter-flexible', 1],
  ['express', 'express + express-rate-limit', 1],
]

/** undefined unless every row of the picture was measured. */
export function peersPlot(rows: readonly Row[]): string | undefined {
  const bars = shown.flatMap(([name, label, colour]): Bar[] => {
    const row = rows.find(({ scenario, failure }) => scenario.name === name && !failure)
    return row ? [{ label, colour, value: median(row.rounds.map(totalMicroseconds)) }] : []
  })
  if (bars.length < shown.length) return undefined
  const title = 'CPU per request, gateway and Redis together'
  const description = bars.map(({ label, value }) => `${label}: ${value.toFixed(1)} µs`).join('; ')
  return barChart({ title, unit: 'µs', bars }, description)
}
