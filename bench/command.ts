/** What the commands of the bench have in common: wrong arguments end with 2, signals end what was started, Linux is needed. */
import { endAllProcesses, isStopping } from './processes.ts'

export interface Command<Options> {
  readonly usage: string
  /** Throws an Error that says what is wrong with the arguments. */
  parse(): Options
  /** Resolves with the exit code. */
  run(options: Options): Promise<number>
}

const signals = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const

export async function runCommand<Options>(command: Command<Options>): Promise<void> {
  let options: Options
  try {
    options = command.parse()
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${command.usage}\n`)
    process.exitCode = 2
    return
  }
  if (process.platform !== 'linux') {
    process.stderr.write('The bench reads CPU time and memory from /proc: it runs on Linux only.\n')
    process.exitCode = 1
    return
  }
  for (const [signal, code] of Object.entries(signals))
    process.once(signal, () => void endAllProcesses().finally(() => process.exit(code)))
  try {
    process.exitCode = await command.run(options)
  } catch (error) {
    // Whatever was under way when a signal came has failed, and nobody asks why.
    if (!isStopping()) throw error
    process.exitCode = 1
  } finally {
    await endAllProcesses()
  }
}

export const wordsOf = (option: string): string[] => option.split(',').filter((word) => word !== '')

/** Names that contain one of the words of `--only`; all where there are none. Throws where a word matches nothing. */
export function namesWith<Name extends string>(
  only: string,
  names: readonly Name[],
): readonly Name[] {
  const words = wordsOf(only)
  const missing = words.find((word) => !names.some((name) => name.includes(word)))
  if (missing !== undefined)
    throw new Error(`--only ${missing} matches nothing; there are ${names.join(', ')}`)
  if (words.length === 0) return names
  return names.filter((name) => words.some((word) => name.includes(word)))
}

/** The progress goes to stderr, so that stdout has the report alone. */
export const progress = (line: string): void => void process.stderr.write(`${line}\n`)
