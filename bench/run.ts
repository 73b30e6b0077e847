/** `npm run bench`: starts everything, verifies, measures in alternating rounds, prints, and ends everything. */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { runCommand } from './command.ts'
import { formatted, replaceBlock } from './markdown.ts'
import { peersPlot } from './peers-plot.ts'
import { isStopping, script } from './processes.ts'
import { report, type Method } from './report.ts'
import { measureAll } from './rounds.ts'
import { selectScenarios, type Scenario } from './scenarios.ts'

const usage = `usage: npm run bench -- [--starts 3] [--rounds 2] [--seconds 3] [--warm-up 2] [--quick] [--only WORD,WORD] [--write]
  --starts   how often every process is started anew, and measured for some rounds
  --quick    one start and one round of a second, after a second of warm-up
  --only     scenarios whose name contains one of the words
  --write    replace the figures in bench/README.md, and plots/peers.svg`

interface Options extends Method {
  readonly scenarios: readonly Scenario[]
  readonly write: boolean
}

function parse(): Options {
  const { values } = parseArgs({
    options: {
      starts: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      'warm-up': { type: 'string' },
      quick: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      write: { type: 'boolean', default: false },
    },
  })
  const positive = (name: 'starts' | 'rounds' | 'seconds' | 'warm-up', usual: number): number => {
    const value = Number(values[name] ?? (values.quick ? 1 : usual))
    if (!(value > 0 && value <= 3600))
      throw new Error(`--${name} takes a number above 0, at most 3600`)
    return value
  }
  return {
    starts: Math.ceil(positive('starts', 3)),
    rounds: Math.ceil(positive('rounds', 2)),
    measuredSeconds: positive('seconds', 3),
    warmUpSeconds: positive('warm-up', 2),
    scenarios: selectScenarios(values.only),
    write: values.write,
  }
}

async function run({ scenarios, write, ...method }: Options): Promise<number> {
  const rows = await measureAll(scenarios, method)
  if (isStopping()) return 1
  const markdown = report(rows, method)
  const readme = script('README.md')
  process.stdout.write(await formatted(readme, markdown))
  if (write) {
    await replaceBlock(readme, 'figures', markdown)
    const plot = peersPlot(rows)
    if (plot !== undefined) writeFileSync(script('plots/peers.svg'), plot)
  }
  return rows.some(({ failure }) => failure?.kind === 'INVALID') ? 1 : 0
}

await runCommand({ usage, parse, run })
