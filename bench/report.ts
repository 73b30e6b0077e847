/** Turns the measured rounds into the Markdown that is printed and kept in README.md. */
import { comparisons, type Comparison } from './comparisons.ts'
import { machine, peerVersions, today, versions } from './machine.ts'
import { grouped, percent, range, table } from './markdown.ts'
import type { Scenario } from './scenarios.ts'
import { lowerQuartile, median } from './statistics.ts'
import { connections, keyCount } from './workload.ts'

export interface Method {
  readonly starts: number
  /** Rounds of each start. */
  readonly rounds: number
  readonly warmUpSeconds: number
  readonly measuredSeconds: number
}

export interface Row {
  readonly scenario: Scenario
  readonly rounds: readonly Round[]
  /** Why the row does not count; undefined for a valid one. */
  readonly failure: Failure | undefined
}

export interface Failure {
  /** not installed: what the row needs is not on this machine; `reason` is the command that installs it. */
  readonly kind: 'INVALID' | 'not installed'
  readonly reason: string
}

type Column<Name = string> = readonly [
  head: string,
  figure: Name,
  summary: typeof median,
  digits: number,
  isWithRange?: 'range',
]

/** The tables by what stands over their first column. What others disturb is the lower quartile of the rounds. */
const tables = {
  scenario: [
    ['requests/s', 'requestsPerSecond', median, 0],
    ['p50 ms', 'p50Ms', median, 2],
    ['p99 ms', 'p99Ms', lowerQuartile, 2],
    ['process CPU µs/request', 'processMicroseconds', lowerQuartile, 1],
    ['Redis CPU µs/request', 'redisMicroseconds', lowerQuartile, 1],
    ['total CPU µs/request (min to max)', 'totalMicroseconds', lowerQuartile, 1, 'range'],
    ['store calls/request', 'storeCalls', median, 3],
    ['bytes allocated/request', 'allocatedBytes', lowerQuartile, 0],
  ],
  'at half load': [
    ['requests/s', 'requestsPerSecond', median, 0],
    ['p50 ms', 'p50Ms', median, 2],
    ['p99 ms (min to max)', 'p99Ms', lowerQuartile, 2, 'range'],
  ],
  'bodies of 10 MiB': [
    ['bodies/s', 'requestsPerSecond', median, 1],
    ['CPU ms/MiB (min to max)', 'millisecondsPerMiB', lowerQuartile, 3, 'range'],
    ['MiB of memory above rest', 'grownMiB', median, 0],
  ],
  start: [
    ['s to the first answer (min to max)', 'startSeconds', lowerQuartile, 2, 'range'],
    ['CPU s of `tollgate check`', 'checkSeconds', lowerQuartile, 2],
    ['MB of memory at rest', 'restMB', median, 0],
  ],
} as const satisfies Record<string, readonly Column[]>

export type TableName = keyof typeof tables

/** waitMicroseconds: ready to run and without a processor, a request. stolenShare: of the machine's time, given to other machines. */
export type Figure = (typeof tables)[TableName][number][1] | 'waitMicroseconds' | 'stolenShare'

/** What a round has measured; NaN, or left out, is what it has not. */
export type Round = Readonly<Partial<Record<Figure, number>>>

export function report(rows: readonly Row[], method: Method): string {
  const names = Object.keys(tables) as TableName[]
  return [
    header(method),
    ...names.map((name) => figures(name, rows)),
    disturbance(rows),
    failures(rows),
    comparisonTable(rows),
  ]
    .filter((part) => part !== '')
    .join('\n\n')
}

function header({ starts, rounds, warmUpSeconds, measuredSeconds }: Method): string {
  return [
    `- date: ${today()}`,
    `- machine: ${machine()}`,
    `- ${versions()}`,
    `- ${peerVersions()}`,
    `- ${starts} starts, ${rounds} ${rounds === 1 ? 'round' : 'rounds'} each, of ${measuredSeconds} s after ${warmUpSeconds} s of warm-up, ${connections} connections, ${keyCount} keys; CPU, allocations and p99 are the lower quartile of the rounds, the rest medians`,
  ].join('\n')
}

const valuesOf = ({ rounds }: Pick<Row, 'rounds'>, figure: Figure): number[] =>
  rounds.map((round) => round[figure] ?? NaN).filter((value) => !Number.isNaN(value))

function figures(name: TableName, rows: readonly Row[]): string {
  const columns: readonly Column<Figure>[] = tables[name]
  const lines = rows
    .filter(({ scenario }) => scenario.table === name)
    .map((row) => {
      const { failure, scenario } = row
      if (failure) return [scenario.label, failure.kind]
      return [scenario.label, ...columns.map((column) => cell(valuesOf(row, column[1]), column))]
    })
  return lines.length === 0 ? '' : table([name, ...columns.map(([head]) => head)], lines)
}

function cell(values: readonly number[], [, , summary, digits, isWithRange]: Column): string {
  if (values.length === 0) return '–'
  const value = grouped(summary(values), digits)
  return isWithRange ? `${value} (${range(values, digits)})` : value
}

/** What others took from the machine while it was measured: the more, the less the figures above are worth. */
function disturbance(rows: readonly Row[]): string {
  const small = rows.filter(({ scenario }) => scenario.table !== 'bodies of 10 MiB')
  const all = { rounds: small.flatMap(({ rounds }) => rounds) }
  const [stolen, waits] = [valuesOf(all, 'stolenShare'), valuesOf(all, 'waitMicroseconds')]
  if (stolen.length === 0) return ''
  return `Disturbance: the host gave ${percent(median(stolen))} of the machine's time to other machines (${percent(Math.min(...stolen))} to ${percent(Math.max(...stolen))} in a round); a process under test was ready and had no processor for ${median(waits).toFixed(1)} µs a request (${range(waits, 1)}), as load and backend share the cores.`
}

function failures(rows: readonly Row[]): string {
  const reasons = rows.flatMap(({ scenario, failure }) =>
    failure
      ? `- ${failure.kind}: ${scenario.label}: \`${failure.reason.replaceAll('`', "'")}\``
      : [],
  )
  // A row at half load fails as the row whose processes it uses.
  return [...new Set(reasons)].join('\n')
}

function comparisonTable(rows: readonly Row[]): string {
  const lines = comparisons.flatMap((comparison) => comparisonLine(comparison, rows))
  if (lines.length === 0) return 'No comparison: of none were both sides selected.'
  const head = [
    'ratio of CPU per request, or as it says',
    'of the lower quartiles (min to max of a round)',
  ]
  return table([...head, 'target', ''], lines)
}

/** None where a side was not selected. */
function comparisonLine(comparison: Comparison, rows: readonly Row[]): string[][] {
  const { label, figure = 'totalMicroseconds', of, to = of, unit, atMost, quiet } = comparison
  const after = unit === undefined ? '' : ` ${unit}`
  const [left, right] = [of, to].map((name) => rows.find(({ scenario }) => scenario.name === name))
  if (!left || !right) return []
  const onQuiet = quiet === undefined ? '' : `; ${quiet} on a quiet machine`
  const target =
    atMost === undefined ? '–' : `at most ${atMost.toLocaleString('en-US')}${after}${onQuiet}`
  if (left.failure ?? right.failure) return [[label, 'not measured', target, '']]
  const compared = (one: number, other: number): number =>
    of === to ? one : unit === undefined ? one / other : one - other
  const [ours, theirs] = [valuesOf(left, figure), valuesOf(right, figure)]
  const value = compared(lowerQuartile(ours), lowerQuartile(theirs))
  // The interval is of pairs of one round: a machine which slows down meanwhile weighs on both sides.
  const pairs = ours.map((one, round) => compared(one, theirs[round] ?? NaN))
  const verdict = atMost === undefined ? '' : value <= atMost ? 'met' : 'MISSED'
  const digits = Math.max(...pairs) < 100 ? 2 : 0
  return [[label, `${grouped(value, digits)}${after} (${range(pairs, digits)})`, target, verdict]]
}
