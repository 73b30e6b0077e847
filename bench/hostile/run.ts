/** `npm run bench:hostile`: plays each attack on the gateway, nginx and HAProxy in turn, and prints what a valid client felt. */
import { readFileSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { createProcesses, type Processes } from '../processes.ts'
import { cases, type HostileCase, type Line } from './cases.ts'
import { endChildren } from './child.ts'
import { isInstalled } from './servers.ts'
import { hostileTable, lineText } from './table.ts'

const usage = `usage: npm run bench:hostile -- [--only CASE,CASE] [--server WORD] [--write]
  --only    cases whose name begins with one of these: ${cases.map(({ name }) => name).join(', ')}
  --server  only servers whose name contains the word
  --write   replace the table in bench/README.md`

let live: Processes | undefined
let isStopping = false

async function play(one: HostileCase, word: string): Promise<Line[]> {
  const lines: Line[] = []
  for (const server of one.servers) {
    if (isStopping || !server.name.includes(word)) continue
    if (!isInstalled(server)) {
      process.stderr.write(`${server.name} is not installed\n`)
      continue
    }
    live = createProcesses(undefined)
    try {
      const line = { server, ...(await one.run(live, server)) }
      lines.push(line)
      process.stderr.write(
        `${one.name.padEnd(12)} ${lineText(line)} (load ${loadavg()[0]?.toFixed(1)})\n`,
      )
    } finally {
      endChildren()
      await live.stopAll()
    }
  }
  return lines
}

function writeTable(markdown: string): void {
  const file = join(import.meta.dirname, '../README.md')
  const [start, end] = ['<!-- hostile -->', '<!-- /hostile -->']
  const readme = readFileSync(file, 'utf8')
  const [from, to] = [readme.indexOf(start), readme.indexOf(end)]
  if (from < 0 || to < from) throw new Error(`${file} has no place marked for the table`)
  writeFileSync(file, `${readme.slice(0, from + start.length)}\n\n${markdown}\n${readme.slice(to)}`)
}

function parseOptions() {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', default: '' },
      server: { type: 'string', default: '' },
      write: { type: 'boolean', default: false },
    },
  })
  const words = values.only.split(',').filter((word) => word !== '')
  const chosen = cases.filter(
    ({ name }) =>
      words.length === 0 || words.some((word) => name === word || name.startsWith(`${word}-`)),
  )
  if (chosen.length === 0) throw new Error(`no case of this name`)
  return { ...values, chosen }
}

async function main(): Promise<number> {
  let options: ReturnType<typeof parseOptions>
  try {
    options = parseOptions()
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${usage}\n`)
    return 2
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => {
      isStopping = true
      endChildren()
      void live?.stopAll().finally(() => process.exit(1))
    })
  const played: [HostileCase, readonly Line[]][] = []
  for (const one of options.chosen) played.push([one, await play(one, options.server)])
  const markdown = hostileTable(played)
  process.stdout.write(markdown)
  if (options.write) writeTable(markdown)
  return 0
}

process.exitCode = await main()
