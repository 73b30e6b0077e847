/** Commands in the process of the test, as src/main.ts runs them: for what a process of its own would show no better. */
import { readFileSync } from 'node:fs'
import { run } from '../../src/cli/commands.ts'
import { exitCodeOf, faultLines } from '../../src/cli/terminal/fault.ts'
import type { Finished } from './processes.ts'
import { sources } from './sources.ts'

const packageFile = new URL('../../package.json', import.meta.url)
const { version } = JSON.parse(readFileSync(packageFile, 'utf8')) as { version: string }

/** For a command that is called by its function: what it is given to speak to, and what it has said. */
export function listener(env: Record<string, string> = {}, columns?: number) {
  const out: string[] = []
  const said: string[] = []
  const print = (line: string): unknown => out.push(line)
  const complain = (line: string): unknown => said.push(line)
  const args: readonly string[] = []
  return { out, said, edge: { env, args, screen: screenOf(columns), print, complain } }
}

/** The exit code of a command that is called by its function; its fault is said as `tollgate` says it. */
export async function codeOf(
  { complain }: { complain(line: string): unknown },
  command: () => number | void | Promise<number | void>,
): Promise<number> {
  try {
    return (await command()) ?? 0
  } catch (error) {
    for (const line of faultLines(error, false)) complain(line)
    return exitCodeOf(error)
  }
}

/** `tollgate ARGS`; columns: on a terminal, which shows both outputs as one: they stand in stdout. */
export async function typed(
  args: readonly string[],
  { env = {}, columns }: { env?: Record<string, string>; columns?: number } = {},
): Promise<Finished> {
  const printed: string[] = []
  const complained = columns === undefined ? [] : printed
  const nothing = (): void => undefined
  const code = await run({
    args,
    env,
    version,
    entry: sources,
    supervisor: undefined,
    screen: screenOf(columns),
    unread: new AbortController().signal,
    print: (line) => printed.push(`${line}\n`),
    complain: (line) => complained.push(`${line}\n`),
    attend: nothing,
    exit: (left) => {
      throw new Error(`it left with ${left}`)
    },
  })
  const stderr = columns === undefined ? complained.join('') : ''
  return { code, stdout: printed.join(''), stderr }
}

/** Of which nothing takes the page. */
const screenOf = (columns: number | undefined) =>
  columns === undefined
    ? undefined
    : { columns, rows: 24, takeOver: () => false, draw: () => undefined, restore: () => undefined }
