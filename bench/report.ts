/** Turns the measured rounds into the Markdown that is printed and kept in README.md. */
import { comparisons, type Comparison } from './comparisons.ts'
import { machine, type Method } from './machine.ts'
import { median, range, table } from './markdown.ts'
import type { Scenario } from './scenarios.ts'

export interface Round {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly processMicroseconds: number
  /** undefined where the scenario has no Redis. */
  readonly redisMicroseconds: number | undefined
  /** By the gateway's own counters; undefined for a peer, and where the store is in the gateway's only process. */
  readonly storeCallsPerRequest: number | undefined
}

export interface Row {
  readonly scenario: Scenario
  readonly rounds: readonly Round[]
  /** Why the row does not count; undefined for a valid one. */
  readonly failure: Failure | undefined
}

export interface Failure {
  /** not installed: what the row needs is not on this machine; `reason` is the command that installs it. */
  readonly kind: 'invalid' | 'not installed'
  readonly reason: string
}

/** Ends in a newline. */
export function report(rows: readonly Row[], method: Method): string {
  const saturated = rows.filter(({ scenario }) => !scenario.halfLoad)
  const atHalfLoad = rows.filter(({ scenario }) => scenario.halfLoad)
  return `${[
    machine(method),
    figures(saturated),
    ...(atHalfLoad.length > 0 ? [latencies(atHalfLoad)] : []),
    ...failures(rows),
    comparisonTable(rows),
  ].join('\n\n')}\n`
}

function figures(rows: readonly Row[]): string {
  const head = [
    'scenario',
    'requests/s',
    'p50 ms',
    'p99 ms',
    'process CPU µs/request',
    'Redis CPU µs/request',
    'total CPU µs/request (min to max)',
    'store calls/request',
  ]
  return table(
    head,
    rows.map((row) => {
      const { rounds } = row
      const storeCalls = rounds.flatMap(({ storeCallsPerRequest }) => storeCallsPerRequest ?? [])
      const redis = rounds.flatMap(({ redisMicroseconds }) => redisMicroseconds ?? [])
      const totals = rounds.map(totalMicroseconds)
      return line(row, head.length, () => [
        median(rounds.map((round) => round.requestsPerSecond)).toFixed(0),
        median(rounds.map((round) => round.p50Ms)).toFixed(2),
        median(rounds.map((round) => round.p99Ms)).toFixed(2),
        median(rounds.map((round) => round.processMicroseconds)).toFixed(1),
        redis.length === 0 ? '–' : median(redis).toFixed(1),
        `${median(totals).toFixed(1)} (${range(totals, 1)})`,
        storeCalls.length === 0 ? '–' : median(storeCalls).toFixed(3),
      ])
    }),
  )
}

function latencies(rows: readonly Row[]): string {
  const head = ['at half load', 'requests/s', 'p50 ms', 'p99 ms (min to max)']
  return table(
    head,
    rows.map((row) => {
      const p99 = row.rounds.map(({ p99Ms }) => p99Ms)
      return line(row, head.length, () => [
        median(row.rounds.map((round) => round.requestsPerSecond)).toFixed(0),
        median(row.rounds.map(({ p50Ms }) => p50Ms)).toFixed(2),
        `${median(p99).toFixed(2)} (${range(p99, 2)})`,
      ])
    }),
  )
}

function line({ scenario, failure }: Row, width: number, cells: () => string[]): string[] {
  if (!failure) return [scenario.label, ...cells()]
  return [
    scenario.label,
    failure.kind === 'invalid' ? 'INVALID' : failure.kind,
    ...Array.from({ length: width - 2 }, () => ''),
  ]
}

function failures(rows: readonly Row[]): string[] {
  const reasons = rows.flatMap(({ scenario, failure }) =>
    failure
      ? `- ${failure.kind === 'invalid' ? 'INVALID' : 'not installed'}: ${scenario.label}: \`${failure.reason.replaceAll('`', "'")}\``
      : [],
  )
  // A row at half load fails as the row whose processes it uses.
  return reasons.length === 0 ? [] : [[...new Set(reasons)].join('\n')]
}

function comparisonTable(rows: readonly Row[]): string {
  const lines = comparisons.flatMap((comparison) => comparisonLine(comparison, rows))
  if (lines.length === 0) return 'No comparison: of none were both sides selected.'
  const head = ['ratio of total CPU per request', 'median of the rounds (min to max)']
  return table([...head, 'target', ''], lines)
}

/** None where one of the two was not selected. */
function comparisonLine(comparison: Comparison, rows: readonly Row[]): string[][] {
  const { label, kind, of, to, factor = 1, atMost, atLeast } = comparison
  const [left, right] = [of, to].map((name) => rows.find(({ scenario }) => scenario.name === name))
  if (!left || !right) return []
  const unit = kind === 'added' ? ' ms' : ''
  const target =
    atMost !== undefined
      ? `at most ${atMost}${unit}`
      : atLeast !== undefined
        ? `at least ${atLeast}${unit}`
        : '–'
  if (left.failure ?? right.failure) return [[label, 'not measured', target, '']]
  // Paired by round, so that a machine which slows down during the run weighs on both sides.
  const values = left.rounds.flatMap((round, index) => {
    const other = right.rounds[index]
    if (!other) return []
    if (kind === 'added') return round.p99Ms - other.p99Ms
    return (factor * totalMicroseconds(round)) / totalMicroseconds(other)
  })
  const value = median(values)
  const isMet = value <= (atMost ?? Infinity) && value >= (atLeast ?? -Infinity)
  const verdict = target === '–' ? '' : isMet ? 'met' : 'MISSED'
  return [[label, `${value.toFixed(2)}${unit} (${range(values, 2)})`, target, verdict]]
}

export function totalMicroseconds({ processMicroseconds, redisMicroseconds = 0 }: Round): number {
  return processMicroseconds + redisMicroseconds
}
