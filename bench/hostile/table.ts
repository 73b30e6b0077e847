/** What was seen, as Markdown. */
import { loadavg } from 'node:os'
import { table } from '../markdown.ts'
import type { HostileCase, Line } from './cases.ts'

type Played = readonly (readonly [HostileCase, readonly Line[]])[]

/** Ends in a newline. */
export function hostileTable(played: Played): string {
  const [load = NaN] = loadavg()
  const head = ['case', 'wanted', 'server', 'found', 'victim answered', 'median, p99, longest ms']
  const lines = played.flatMap(([one, all]) =>
    all.map((line, nth) => [
      nth === 0 ? `${one.name}: ${one.title}` : '',
      nth === 0 ? one.wanted : '',
      line.server.name,
      line.found + verdict(one, line, all),
      pairs(line.sight.answers),
      [line.sight.medianMs, line.sight.p99Ms, line.sight.longestMs].map(round).join(', '),
      `${round(line.sight.rssBeforeMB)}, ${round(line.sight.rssMostMB)}`,
      round(line.sight.cpuSeconds),
      pairs(line.sight.attack),
    ]),
  )
  const date = new Date().toISOString().slice(0, 10)
  return `${date}, Node.js ${process.versions.node}; load of the machine at the end: ${load.toFixed(1)}\n\n${table([...head, 'RSS MB before, most', 'CPU s', 'attack'], lines)}\n`
}

export function lineText(line: Line): string {
  const { server, sight, found } = line
  const { medianMs, p99Ms, longestMs, rssBeforeMB, rssMostMB } = sight
  return `${server.name.padEnd(22)} ${found}; answers ${pairs(sight.answers)}; ${[medianMs, p99Ms, longestMs].map(round).join(', ')} ms; RSS ${round(rssBeforeMB)} to ${round(rssMostMB)} MB; CPU ${round(sight.cpuSeconds)} s; heads ${sight.heads}; attack ${pairs(sight.attack)}`
}

function verdict(one: HostileCase, line: Line, all: readonly Line[]): string {
  if (line.server.kind !== 'gateway') return ''
  return one.isMet(line, all) ? ': **met**' : ': **MISSED**'
}

const pairs = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .map(([name, count]) => `${name}: ${count}`)
    .join(', ') || '–'

const round = (value: number): string => (value < 10 ? value.toFixed(1) : value.toFixed(0))
