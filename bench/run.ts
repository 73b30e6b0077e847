/** `npm run bench`: starts everything, verifies, measures in alternating rounds, prints, and ends everything. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { createProcesses, type Launched, type Processes } from './processes.ts'
import { report, type Method, type Round, type Row } from './report.ts'
import { selectScenarios, type Scenario, type Subject, type World } from './scenarios.ts'
import { loadFor, verify, type Answer } from './verify.ts'
import { connections, keyCount } from './workload.ts'

const usage = `usage: npm run bench -- [--rounds 3] [--seconds 4] [--warm-up 2] [--only WORD,WORD] [--write] [--profile DIRECTORY]
  --only     scenarios whose name contains one of the words
  --write    replace the figures in bench/README.md
  --profile  write V8 CPU profiles there; the figures are then not comparable`

interface Options extends Method {
  readonly only: readonly string[]
  readonly write: boolean
  readonly profile: string | undefined
}

interface Contender {
  readonly scenario: Scenario
  subject: Subject | undefined
  readonly rounds: Round[]
  invalid: string | undefined
}

async function measureAll(options: Options, processes: Processes): Promise<readonly Row[]> {
  const contenders: readonly Contender[] = selectScenarios(options.only).map((scenario) => ({
    scenario,
    subject: undefined,
    rounds: [],
    invalid: undefined,
  }))
  const backend = await processes.launch({
    name: 'backend',
    command: [join(import.meta.dirname, 'backend.ts')],
    listener: 'backend',
    own: true,
  })
  await prepareAll(contenders, processes, backend)
  for (let round = 1; round <= options.rounds; round++) {
    for (const contender of contenders) {
      if (contender.invalid !== undefined || processes.stopping()) continue
      await guarded(contender, () => measure(contender, options, processes))
      progress(`round ${round}/${options.rounds} ${contender.scenario.name}`, contender)
    }
  }
  return contenders
}

async function prepareAll(
  contenders: readonly Contender[],
  processes: Processes,
  backend: Launched,
): Promise<void> {
  const answers = new Map<string, Answer>()
  const world: World = {
    processes,
    backend,
    answerOf: (name) => {
      const answer = answers.get(name)
      if (!answer) throw new Error(`${name} gave no answer to repeat`)
      return answer
    },
  }
  for (const contender of contenders) {
    if (processes.stopping()) return
    const { scenario } = contender
    await guarded(contender, async () => {
      contender.subject = await scenario.start(world)
      const answer = await verify(scenario, contender.subject, world)
      if (answer) answers.set(scenario.name, answer)
    })
    progress(`verified ${scenario.name}`, contender)
  }
}

/** A scenario that fails loses its row; the others go on. */
async function guarded(contender: Contender, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    const { message } = error as Error
    contender.invalid = message.replaceAll(/\s+/g, ' ').slice(0, 300)
  }
}

async function measure(
  { scenario, subject, rounds }: Contender,
  { warmUpSeconds, measuredSeconds }: Options,
  processes: Processes,
): Promise<void> {
  if (!subject) return
  const { server, redisPid } = subject
  const outcome = await processes.load({
    ...loadFor(scenario, subject),
    length: { warmUpSeconds, measuredSeconds },
    pids: redisPid === undefined ? [server.pid] : [server.pid, redisPid],
  })
  server.truncateLog()
  if (outcome.faults.length > 0) throw new Error(outcome.faults.join(', '))
  const [process, redis] = outcome.cpuMicroseconds
  rounds.push({
    requestsPerSecond: outcome.requests / outcome.seconds,
    p50Ms: outcome.p50Ms,
    p99Ms: outcome.p99Ms,
    processMicroseconds: (process ?? NaN) / outcome.requests,
    redisMicroseconds: redis === undefined ? undefined : redis / outcome.requests,
  })
}

function progress(what: string, { invalid, rounds }: Contender): void {
  const last = rounds.at(-1)
  const figures = last
    ? `${last.requestsPerSecond.toFixed(0)} requests/s, ${(last.processMicroseconds + (last.redisMicroseconds ?? 0)).toFixed(1)} µs`
    : 'ok'
  process.stderr.write(`${what}: ${invalid === undefined ? figures : `INVALID, ${invalid}`}\n`)
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
  try {
    options = parseOptions(process.argv.slice(2))
    selectScenarios(options.only)
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
    const rows = await measureAll(options, processes)
    // Interrupted: the rows are not what was asked for.
    if (processes.stopping()) return 1
    const markdown = report(rows, options)
    process.stdout.write(markdown)
    if (options.write) writeFigures(markdown)
    return rows.some(({ invalid }) => invalid !== undefined) ? 1 : 0
  } finally {
    await processes.stopAll()
  }
}

process.exitCode = await main()
