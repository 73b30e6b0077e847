/** `npm run bench`: starts everything, verifies, measures in alternating rounds, prints, and ends everything. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { createProcesses } from './processes.ts'
import type { Method } from './machine.ts'
import { peersPlot } from './peers-plot.ts'
import { report } from './report.ts'
import { measureAll } from './rounds.ts'
import { selectScenarios, type Scenario } from './scenarios.ts'
import { connections, keyCount } from './workload.ts'

const usage = `usage: npm run bench -- [--rounds 3] [--seconds 4] [--warm-up 2] [--only WORD,WORD] [--write] [--profile DIRECTORY]
  --only     scenarios whose name contains one of the words
  --write    replace the figures in bench/README.md, and plots/peers.svg
  --profile  write V8 CPU profiles there; the figures are then not comparable`

interface Options extends Method {
  readonly only: readonly string[]
  readonly write: boolean
  readonly profile: string | undefined
}

function parseOptions(argv: readonly string[]): Options {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      rounds: { type: 'string', default: '3' },
      seconds: { type: 'string', default: '4' },
      'warm-up': { type: 'string', default: '2' },
      only: { type: 'string', default: '' },
      write: { type: 'boolean', default: false },
      profile: { type: 'string' },
    },
  })
  const positive = (name: 'rounds' | 'seconds' | 'warm-up'): number => {
    const value = Number(values[name])
    if (!(value > 0 && value <= 3600))
      throw new Error(`--${name} takes a number above 0, at most 3600`)
    return value
  }
  if (values.write && values.profile !== undefined)
    throw new Error('--write and --profile exclude each other')
  return {
    rounds: Math.ceil(positive('rounds')),
    measuredSeconds: positive('seconds'),
    warmUpSeconds: positive('warm-up'),
    connections,
    keys: keyCount,
    only: values.only.split(',').filter((word) => word !== ''),
    write: values.write,
    profile: values.profile === undefined ? undefined : resolve(values.profile),
  }
}

function writeFigures(markdown: string): void {
  const file = join(import.meta.dirname, 'README.md')
  const [start, end] = ['<!-- figures -->', '<!-- /figures -->']
  const readme = readFileSync(file, 'utf8')
  const from = readme.indexOf(start)
  const to = readme.indexOf(end)
  if (from < 0 || to < from) throw new Error(`${file} has no place marked for the figures`)
  writeFileSync(file, `${readme.slice(0, from + start.length)}\n\n${markdown}\n${readme.slice(to)}`)
}

async function main(): Promise<number> {
  let options: Options
  let scenarios: readonly Scenario[]
  try {
    options = parseOptions(process.argv.slice(2))
    scenarios = selectScenarios(options.only)
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${usage}\n`)
    return 2
  }
  if (process.platform !== 'linux') {
    process.stderr.write('The bench reads CPU time from /proc and so runs on Linux only.\n')
    return 1
  }
  if (options.profile !== undefined) mkdirSync(options.profile, { recursive: true })
  const processes = createProcesses(options.profile)
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)
    process.once(signal, () => void processes.stopAll().finally(() => process.exit(code)))
  try {
    const rows = await measureAll(scenarios, options, processes)
    // Interrupted: the rows are not what was asked for.
    if (processes.stopping()) return 1
    const markdown = report(rows, options)
    process.stdout.write(markdown)
    if (options.write) {
      writeFigures(markdown)
      const plot = peersPlot(rows)
      if (plot !== undefined) writeFileSync(join(import.meta.dirname, 'plots/peers.svg'), plot)
    }
    return rows.some(({ failure }) => failure?.kind === 'invalid') ? 1 : 0
  } finally {
    await processes.stopAll()
  }
}

process.exitCode = await main()
