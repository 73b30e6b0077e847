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

export interface Round {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly processMicroseconds: number
  /** undefined where the scenario has no Redis. */
  readonly redisMicroseconds: number | undefined
  /** By the gateway's own counters; undefined for a peer, and where the store is in the gateway's only process. */
  readonly storeCallsPerRequest: number | undefined
  /** Per request, on V8's heap; undefined for what is no Node.js, or several processes. */
  readonly allocatedBytes: number | undefined
  /** Per request: the process was ready to run and had no processor. */
  readonly waitMicroseconds: number
  /** The part of the machine's time that its host gave to other machines. */
  readonly stolenShare: number
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

export function report(rows: readonly Row[], method: Method): string {
  const saturated = rows.filter(({ scenario }) => !scenario.halfLoad)
  const atHalfLoad = rows.filter(({ scenario }) => scenario.halfLoad)
  return [
    header(method),
    figures(saturated),
    ...(atHalfLoad.length > 0 ? [latencies(atHalfLoad)] : []),
    disturbance(rows),
    ...failures(rows),
    comparisonTable(rows),
  ].join('\n\n')
}

function header({ starts, rounds, warmUpSeconds, measuredSeconds }: Method): string {
  return [
    `- date: ${today()}`,
    `- machine: ${machine()}`,
    `- ${versions()}`,
    `- ${peerVersions()}`,
    `- ${starts} starts, ${rounds} rounds each, of ${measuredSeconds} s after ${warmUpSeconds} s of warm-up, ${connections} connections, ${keyCount} keys; CPU, allocations and p99 are the lower quartile of the rounds, the rest medians`,
  ].join('\n')
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
    'bytes allocated/request',
  ]
  return table(
    head,
    rows.map((row) => {
      const { rounds } = row
      const defined = (value: (round: Round) => number | undefined): number[] =>
        rounds.flatMap((round) => value(round) ?? [])
      const storeCalls = defined((round) => round.storeCallsPerRequest)
      const redis = defined((round) => round.redisMicroseconds)
      const allocated = defined((round) => round.allocatedBytes)
      return line(row, () => [
        median(rounds.map((round) => round.requestsPerSecond)).toFixed(0),
        median(rounds.map((round) => round.p50Ms)).toFixed(2),
        lowerQuartile(rounds.map((round) => round.p99Ms)).toFixed(2),
        lowerQuartile(rounds.map((round) => round.processMicroseconds)).toFixed(1),
        redis.length === 0 ? '–' : lowerQuartile(redis).toFixed(1),
        quartileAndRange(rounds.map(totalMicroseconds), 1),
        storeCalls.length === 0 ? '–' : median(storeCalls).toFixed(3),
        allocated.length === 0 ? '–' : grouped(lowerQuartile(allocated)),
      ])
    }),
  )
}

function latencies(rows: readonly Row[]): string {
  const head = ['at half load', 'requests/s', 'p50 ms', 'p99 ms (min to max)']
  return table(
    head,
    rows.map((row) =>
      line(row, () => [
        median(row.rounds.map((round) => round.requestsPerSecond)).toFixed(0),
        median(row.rounds.map((round) => round.p50Ms)).toFixed(2),
        quartileAndRange(
          row.rounds.map(({ p99Ms }) => p99Ms),
          2,
        ),
      ]),
    ),
  )
}

const quartileAndRange = (values: readonly number[], digits: number): string =>
  `${lowerQuartile(values).toFixed(digits)} (${range(values, digits)})`

/** What others took from the machine while it was measured: the more, the less the figures above are worth. */
function disturbance(rows: readonly Row[]): string {
  const rounds = rows.flatMap((row) => row.rounds)
  if (rounds.length === 0) return ''
  const stolen = rounds.map((round) => round.stolenShare)
  const waits = rounds.map((round) => round.waitMicroseconds)
  return `Disturbance: the host gave ${percent(median(stolen))} of the machine's time to other machines (${percent(Math.min(...stolen))} to ${percent(Math.max(...stolen))} in a round); a process under test was ready and had no processor for ${median(waits).toFixed(1)} µs a request (${range(waits, 1)}), as load and backend share the cores.`
}

function line({ scenario, failure }: Row, cells: () => string[]): string[] {
  if (!failure) return [scenario.label, ...cells()]
  return [scenario.label, failure.kind === 'invalid' ? 'INVALID' : failure.kind]
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
  const head = [
    'ratio of CPU per request, or as it says',
    'of the lower quartiles (min to max of a round)',
  ]
  return table([...head, 'target', ''], lines)
}

const valueOf: Record<Comparison['kind'], (round: Round) => number> = {
  cpu: totalMicroseconds,
  allocated: ({ allocatedBytes = NaN }) => allocatedBytes,
  added: ({ p99Ms }) => p99Ms,
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
  const compared = (one: number, other: number): number =>
    kind === 'added' ? one - other : (factor * one) / other
  const [ours, theirs] = [left, right].map(({ rounds }) => rounds.map(valueOf[kind]))
  if (!ours || !theirs) return []
  const value = compared(lowerQuartile(ours), lowerQuartile(theirs))
  // The interval is of pairs of one round: a machine which slows down meanwhile weighs on both sides.
  const pairs = ours.map((one, round) => compared(one, theirs[round] ?? NaN))
  const isMet = value <= (atMost ?? Infinity) && value >= (atLeast ?? -Infinity)
  const verdict = target === '–' ? '' : isMet ? 'met' : 'MISSED'
  return [[label, `${value.toFixed(2)}${unit} (${range(pairs, 2)})`, target, verdict]]
}

export function totalMicroseconds({ processMicroseconds, redisMicroseconds = 0 }: Round): number {
  return processMicroseconds + redisMicroseconds
}
