/** `npm run bench:growth`: what a request costs as clients, processes, limits and connections grow. */
import { readFileSync, writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { namesWith, progress, runCommand } from '../command.ts'
import { machine, today, versions } from '../machine.ts'
import { formatted, replaceBlock, three } from '../markdown.ts'
import { isStopping, script } from '../processes.ts'
import { capacityTables, type Results, type SeriesName } from './capacity.ts'
import { series, type Pace, type Point } from './series.ts'

const names = Object.keys(series) as SeriesName[]
const page = script('../docs/capacity.md')
/** What was measured; the tables of the page are made from it. */
const kept = script('growth/results.json')

const usage = `usage: npm run bench:growth -- [--only WORD,WORD] [--quick] [--minutes 3] [--clients N] [--write] [--render]
  --only     series whose name contains one of the words: ${names.join(', ')}
  --quick    short windows, one minute of limits, and without the largest points
  --minutes  whole minutes that the limits series is measured
  --clients  measure the clients series with so many alone
  --write    keep the results, and replace the tables in docs/capacity.md
  --render   measure nothing: make the tables anew from the results kept`

interface Options {
  readonly chosen: readonly SeriesName[]
  readonly pace: Pace
  readonly write: boolean
  readonly render: boolean
}

function parse(): Options {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', default: '' },
      quick: { type: 'boolean', default: false },
      minutes: { type: 'string' },
      clients: { type: 'string' },
      write: { type: 'boolean', default: false },
      render: { type: 'boolean', default: false },
    },
  })
  const chosen = namesWith(values.only, names)
  const minutes = Number(values.minutes ?? (values.quick ? 1 : 3))
  if (!Number.isInteger(minutes) || minutes < 1 || minutes > 60)
    throw new Error('--minutes takes a whole number from 1 to 60')
  const clients = values.clients === undefined ? undefined : Number(values.clients)
  if (clients !== undefined && !(Number.isInteger(clients) && clients > 0))
    throw new Error('--clients takes a whole number above 0')
  const { quick, write, render } = values
  if (write && clients !== undefined) throw new Error('--write and --clients exclude each other')
  const short = { warmUpSeconds: 1, windowSeconds: 1, windows: 1 }
  // The measured time is longer than a lease lasts, 10 s.
  const timing = quick ? short : { warmUpSeconds: 3, windowSeconds: 4, windows: 3 }
  return { chosen, pace: { timing, minutes, quick, clients }, write, render }
}

async function measure({ chosen, pace }: Options): Promise<Results> {
  const results: Results = {}
  for (const name of chosen) {
    const points: Point[] = []
    for await (const point of series[name](pace)) {
      points.push(point)
      progress(`${name}: ${described(point)}`)
    }
    results[name] = { date: today(), machine: machine(), versions: versions(), points }
  }
  return results
}

/** Figures with the names under which they are kept. */
function described({ label, invalid, figures, more }: Point): string {
  if (invalid !== undefined) return `${label}: INVALID, ${invalid}`
  const all = Object.entries({ ...figures, ...more })
  return `${label}: ${all.map(([name, value]) => `${name} ${three(value)}`).join(', ')}`
}

/** Six digits are more than any of these figures is good for. */
const rounded = (_key: string, value: unknown): unknown =>
  typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value

async function run(options: Options): Promise<number> {
  const results = options.render ? {} : await measure(options)
  if (isStopping()) return 1
  // Series that were not measured now keep what an earlier run has found.
  const all = { ...(JSON.parse(readFileSync(kept, 'utf8')) as Results), ...results }
  if (options.write) writeFileSync(kept, `${JSON.stringify(all, rounded, 2)}\n`)
  const tables = capacityTables(options.pace.clients === undefined ? all : {})
  if (tables) process.stdout.write(await formatted(page, `${tables.measured}\n\n${tables.sizes}`))
  if (tables && (options.write || options.render)) {
    await replaceBlock(page, 'measured', tables.measured)
    await replaceBlock(page, 'sizes', tables.sizes)
  }
  const points = Object.values(results).flatMap((result) => result.points)
  return points.some(({ invalid }) => invalid !== undefined) ? 1 : 0
}

await runCommand({ usage, parse, run })
