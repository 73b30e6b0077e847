/** `npm run bench:hostile`: plays each attack on the gateway, nginx and HAProxy in turn, and prints what a valid client felt. */
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { progress, runCommand, wordsOf } from '../command.ts'
import { today } from '../machine.ts'
import { formatted, replaceBlock, table } from '../markdown.ts'
import { isStopping, script, withProcesses } from '../processes.ts'
import { cases, usualServers, type HostileCase } from './cases.ts'
import { playOn, type Sight } from './play.ts'
import { isInstalled, type Server } from './servers.ts'

const usage = `usage: npm run bench:hostile -- [--only CASE,CASE] [--server WORD] [--write]
  --only    cases whose name begins with one of these: ${cases.map(({ name }) => name).join(', ')}
  --server  only servers whose name contains the word
  --write   replace the table in bench/README.md`

type Line = Readonly<{ server: Server; sight: Sight }>

function parse() {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', default: '' },
      server: { type: 'string', default: '' },
      write: { type: 'boolean', default: false },
    },
  })
  const words = wordsOf(values.only)
  const chosen = cases.filter(
    ({ name }) =>
      words.length === 0 || words.some((word) => name === word || name.startsWith(`${word}-`)),
  )
  if (chosen.length === 0) throw new Error('no case has this name')
  return { ...values, chosen }
}

async function play(one: HostileCase, word: string): Promise<string[][]> {
  const lines: Line[] = []
  for (const server of one.servers ?? usualServers) {
    if (isStopping() || !server.name.includes(word)) continue
    if (!isInstalled(server)) {
      progress(`${server.name} is not installed`)
      continue
    }
    const sight = await withProcesses((processes) => playOn(processes, server, one.play))
    lines.push({ server, sight })
    const cells = cellsOf(one, lines, { server, sight }).join('; ')
    progress(`${one.name.padEnd(16)} ${cells}; load ${loadavg()[0]?.toFixed(1)}`)
  }
  return lines.map((line, nth) => [
    nth === 0 ? `${one.name}: ${one.title}` : '',
    nth === 0 ? one.wanted : '',
    ...cellsOf(one, lines, line),
  ])
}

function cellsOf(one: HostileCase, lines: readonly Line[], { server, sight }: Line): string[] {
  const nginx = lines.find((line) => line.server.kind === 'nginx')?.sight
  const verdict = one.isMet(sight, nginx) ? ': **met**' : ': **MISSED**'
  return [
    server.name,
    one.found(sight) + (server.kind === 'gateway' ? verdict : ''),
    pairs(sight.answers),
    [sight.medianMs, sight.p99Ms, sight.longestMs].map(round).join(', '),
    `${round(sight.rssBeforeMB)}, ${round(sight.rssMostMB)}`,
    round(sight.cpuSeconds),
    pairs(sight.attack),
  ]
}

const pairs = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .map(([name, count]) => `${name}: ${count}`)
    .join(', ') || '–'

const round = (value: number): string => value.toFixed(value < 10 ? 1 : 0)

async function run({ chosen, server, write }: ReturnType<typeof parse>): Promise<number> {
  const lines: string[][] = []
  for (const one of chosen) lines.push(...(await play(one, server)))
  if (isStopping()) return 1
  const head = ['case', 'wanted', 'server', 'found', 'victim answered', 'median, p99, longest ms']
  const [load = NaN] = loadavg()
  const origin = `${today()}, Node.js ${process.versions.node}; load of the machine at the end: ${load.toFixed(1)}`
  const markdown = `${origin}\n\n${table([...head, 'RSS MB before, most', 'CPU s', 'attack'], lines)}`
  const readme = script('README.md')
  process.stdout.write(await formatted(readme, markdown))
  if (write) await replaceBlock(readme, 'hostile', markdown)
  return 0
}

await runCommand({ usage, parse, run })
