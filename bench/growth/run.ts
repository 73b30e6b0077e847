/** `npm run bench:growth`: what a request costs as clients, processes, limits, bodies and connections grow. */
import { parseArgs } from 'node:util'
import type { Timing } from './measure.ts'
import { limitsSeries, type LimitPoint } from './limits-series.ts'
import { render } from './render.ts'
import { report, targets } from './report.ts'
import {
  describeRun,
  readResults,
  seriesNames,
  writeResults,
  type Results,
  type SeriesName,
} from './results.ts'
import {
  bodiesSeries,
  clientsSeries,
  connectionsSeries,
  hotKeySeries,
  processesSeries,
  type Pace,
  type Point,
} from './series.ts'
import { endAllWorkbenches, isStopping } from './workbench.ts'

const usage = `usage: npm run bench:growth -- [--only WORD,WORD] [--quick] [--minutes 3] [--write] [--render]
  --only     series whose name contains one of the words: limits, ${seriesNames.join(', ')}
  --quick    short windows, one minute of limits, and without the largest points
  --minutes  whole minutes that the limits series is measured
  --write    keep the results, and replace the plots, the figures in bench/README.md and docs/capacity.md
  --render   measure nothing: make plots and pages anew from the results kept`

interface Options {
  readonly only: readonly string[]
  readonly pace: Pace
  readonly minutes: number
  readonly write: boolean
  readonly render: boolean
}

const run: Record<SeriesName, (pace: Pace, onPoint: (point: Point) => void) => Promise<Point[]>> = {
  clients: clientsSeries,
  processes: processesSeries,
  'hot-key': hotKeySeries,
  bodies: bodiesSeries,
  connections: connectionsSeries,
}

/** Series measured with the longer timing. */
const inLeases: ReadonlySet<SeriesName> = new Set(['clients', 'processes', 'hot-key'])

async function measureAll(options: Options): Promise<Results> {
  const { pace, minutes } = options
  const asked = (name: string): boolean =>
    options.only.length === 0 || options.only.some((word) => name.includes(word))
  const methodOf = ({ warmUpSeconds, windowSeconds, windows }: Timing): string =>
    `median of ${windows} windows of ${windowSeconds} s after ${warmUpSeconds} s of warm-up`
  const series: Results['series'] = {}
  for (const name of seriesNames) {
    if (!asked(name)) continue
    const points = await run[name](pace, (point) => progress(name, point))
    const timing = inLeases.has(name) ? pace.leaseTiming : pace.timing
    series[name] = { ...describeRun(methodOf(timing)), points }
  }
  if (!asked('limits')) return { series }
  progressText(`limits: waiting for the next minute, then ${minutes} min`)
  const points = await limitsSeries(minutes, limitProgress)
  const described = describeRun(minutes === 1 ? 'one minute' : `median of ${minutes} minutes`)
  return { series, limits: { ...described, points } }
}

function progress(name: string, { label, invalid, figures }: Point): void {
  const { gatewayMicroseconds, redisMicroseconds, storeCalls } = figures ?? {}
  progressText(
    invalid === undefined
      ? `${name}: ${label}: gateway ${gatewayMicroseconds?.median.toFixed(1)} µs, Redis ${redisMicroseconds?.median.toFixed(1)} µs, ${storeCalls?.toFixed(3)} store calls`
      : `${name}: ${label}: INVALID, ${invalid}`,
  )
}

function limitProgress({ perMinute, offered, invalid, figures }: LimitPoint): void {
  progressText(
    `limits: ${perMinute} a minute at ${offered * 100} %: ${
      invalid === undefined
        ? `${figures?.storeCalls.toFixed(4)} store calls, ${figures?.over} over`
        : `INVALID, ${invalid}`
    }`,
  )
}

function progressText(line: string): void {
  process.stderr.write(`${line}\n`)
}

/** Series that were not measured now keep what an earlier run has found. */
function merged(earlier: Results, now: Results): Results {
  return { ...earlier, ...now, series: { ...earlier.series, ...now.series } }
}

function parseOptions(argv: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      only: { type: 'string', default: '' },
      quick: { type: 'boolean', default: false },
      minutes: { type: 'string' },
      write: { type: 'boolean', default: false },
      render: { type: 'boolean', default: false },
    },
  })
  const only = values.only.split(',').filter((word) => word !== '')
  const names = ['limits', ...seriesNames]
  const unknown = only.find((word) => !names.some((name) => name.includes(word)))
  if (unknown !== undefined)
    throw new Error(`no series is called like ${unknown}; there are ${names.join(', ')}`)
  const minutes = Number(values.minutes ?? (values.quick ? 1 : 3))
  if (!Number.isInteger(minutes) || minutes < 1 || minutes > 60)
    throw new Error('--minutes takes a whole number from 1 to 60')
  const short = { warmUpSeconds: 1, windowSeconds: 1, windows: 1 }
  const timing = values.quick ? short : { warmUpSeconds: 2, windowSeconds: 2, windows: 3 }
  const leaseTiming = values.quick ? short : { warmUpSeconds: 3, windowSeconds: 4, windows: 3 }
  const { quick, write, render: renderOnly } = values
  return { only, minutes, pace: { timing, leaseTiming, quick }, write, render: renderOnly }
}

async function main(): Promise<number> {
  let options: Options
  try {
    options = parseOptions(process.argv.slice(2))
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${usage}\n`)
    return 2
  }
  if (options.render) {
    await render(readResults())
    return 0
  }
  if (process.platform !== 'linux') {
    process.stderr.write(
      'The bench reads CPU time and memory from /proc and so runs on Linux only.\n',
    )
    return 1
  }
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)
    process.once(signal, () => {
      // What was under way fails now, and is of no interest.
      process.on('unhandledRejection', () => undefined)
      void endAllWorkbenches().finally(() => process.exit(code))
    })
  try {
    const results = await measureAll(options)
    process.stdout.write(`${report(results)}\n`)
    if (options.write) {
      const all = merged(readResults(), results)
      writeResults(all)
      await render(all)
    }
    for (const { what, target, measured, met } of targets(results))
      if (!met) progressText(`MISSED: ${what}: ${measured}, wanted ${target}`)
    return hasInvalid(results) ? 1 : 0
  } catch (error) {
    if (isStopping()) return 1
    throw error
  } finally {
    await endAllWorkbenches()
  }
}

function hasInvalid({ series, limits }: Results): boolean {
  const points = [
    ...Object.values(series).flatMap((result) => result.points),
    ...(limits?.points ?? []),
  ]
  return points.some(({ invalid }) => invalid !== undefined)
}

process.exitCode = await main()
