/** Turns the measured rounds into the Markdown that is printed and kept in README.md. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { ratios, type RatioSpec, type Scenario } from './scenarios.ts'

export interface Round {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly processMicroseconds: number
  /** undefined where the scenario has no Redis. */
  readonly redisMicroseconds: number | undefined
}

export interface Row {
  readonly scenario: Scenario
  readonly rounds: readonly Round[]
  /** Why the row does not count; undefined for a valid one. */
  readonly invalid: string | undefined
}

export interface Method {
  readonly rounds: number
  readonly warmUpSeconds: number
  readonly measuredSeconds: number
  readonly connections: number
  readonly keys: number
}

/** Ends in a newline; tables are aligned as prettier would. */
export function report(rows: readonly Row[], method: Method): string {
  return `${machine(method)}\n\n${[figures(rows), ...invalidReasons(rows), ratioTable(rows)].join('\n\n')}\n`
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
  ]
  return table(
    head,
    rows.map(({ scenario, rounds, invalid }) => {
      if (invalid !== undefined) return [scenario.label, 'INVALID', '', '', '', '', '']
      const totals = rounds.map(totalMicroseconds)
      const redis = rounds.flatMap(({ redisMicroseconds }) => redisMicroseconds ?? [])
      return [
        scenario.label,
        median(rounds.map((round) => round.requestsPerSecond)).toFixed(0),
        median(rounds.map((round) => round.p50Ms)).toFixed(2),
        median(rounds.map((round) => round.p99Ms)).toFixed(2),
        median(rounds.map((round) => round.processMicroseconds)).toFixed(1),
        redis.length === 0 ? '–' : median(redis).toFixed(1),
        `${median(totals).toFixed(1)} (${range(totals, 1)})`,
      ]
    }),
  )
}

function invalidReasons(rows: readonly Row[]): string[] {
  const reasons = rows.flatMap(({ scenario, invalid }) =>
    invalid === undefined
      ? []
      : `- INVALID: ${scenario.label}: \`${invalid.replaceAll('`', "'")}\``,
  )
  return reasons.length === 0 ? [] : [reasons.join('\n')]
}

function ratioTable(rows: readonly Row[]): string {
  const lines = ratios.flatMap((spec) => ratioLine(spec, rows) ?? [])
  if (lines.length === 0) return 'No ratio: of none were both sides measured.'
  return table(['ratio of total CPU', 'median of the rounds (min to max)', 'target', ''], lines)
}

function ratioLine({ label, of, to, atMost }: RatioSpec, rows: readonly Row[]): string[][] | null {
  const [left, right] = [of, to].map((name) =>
    rows.find(({ scenario, invalid }) => scenario.name === name && invalid === undefined),
  )
  if (!left || !right) return null
  // Paired by round, so that a machine which slows down during the run weighs on both sides.
  const quotients = left.rounds.flatMap((round, index) => {
    const other = right.rounds[index]
    return other ? totalMicroseconds(round) / totalMicroseconds(other) : []
  })
  const value = median(quotients)
  const verdict = atMost === undefined ? '' : value <= atMost ? 'met' : 'MISSED'
  const target = atMost === undefined ? '–' : `at most ${atMost}`
  return [[label, `${value.toFixed(2)} (${range(quotients, 2)})`, target, verdict]]
}

function machine({ rounds, warmUpSeconds, measuredSeconds, connections, keys }: Method): string {
  const [first] = cpus()
  const packages = ['undici', 'http-proxy-3', 'ioredis', 'rate-limiter-flexible', 'prom-client']
  const redis = /v=(\S+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))
  return [
    `- date: ${new Date().toISOString().slice(0, 10)}`,
    `- machine: ${cpus().length} cores, ${first?.model.trim() ?? 'unknown CPU'}, ${(totalmem() / 2 ** 30).toFixed(0)} GiB, ${process.platform} ${release().split('.').slice(0, 2).join('.')}`,
    `- Node.js ${process.versions.node}, Redis ${redis?.[1] ?? 'unknown'}, ${[...packages, 'pino', 'autocannon'].map(nameAndVersion).join(', ')}`,
    `- ${rounds} rounds of ${measuredSeconds} s after ${warmUpSeconds} s of warm-up, ${connections} connections, ${keys} keys; medians`,
  ].join('\n')
}

function nameAndVersion(name: string): string {
  const file = join(import.meta.dirname, '../node_modules', name, 'package.json')
  const { version } = JSON.parse(readFileSync(file, 'utf8')) as { version: string }
  return `${name} ${version}`
}

function totalMicroseconds({ processMicroseconds, redisMicroseconds = 0 }: Round): number {
  return processMicroseconds + redisMicroseconds
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length / 2
  return ((sorted[Math.ceil(middle) - 1] ?? NaN) + (sorted[Math.floor(middle)] ?? NaN)) / 2
}

function range(values: readonly number[], digits: number): string {
  return `${Math.min(...values).toFixed(digits)} to ${Math.max(...values).toFixed(digits)}`
}

/** The first column is text, the others are numbers and stand to the right. */
function table(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(4, title.length, ...lines.map((line) => line[column]?.length ?? 0)),
  )
  const row = (cells: readonly string[]): string =>
    `| ${widths.map((width, column) => (column === 0 ? (cells[column] ?? '').padEnd(width) : (cells[column] ?? '').padStart(width))).join(' | ')} |`
  const rule = widths.map((width, column) =>
    column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  )
  return [row(head), row(rule), ...lines.map(row)].join('\n')
}
