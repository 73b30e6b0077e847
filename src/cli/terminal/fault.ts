/** Faults of commands as they are printed, and their exit codes. */
import { ConfigError } from '../../config/problems.ts'
import type { Leaf } from '../../config/scalars.ts'
import { Fault } from '../../tools/fault.ts'

export { Fault }

export const OK = 0
export const FAILED = 1
/** The command line or the config cannot be taken. */
export const REFUSED = 2

export const HELP_HINT = 'Add --help to see what is taken.'

export const usageFault = (message: string): Fault =>
  new Fault('usage', message, { remedy: HELP_HINT })

/** Reads an option, which may be missing. Throws `fault; remedy` where it is wrong. */
export function readOption<Value, Written extends string | undefined>(
  name: string,
  leaf: Leaf<Value>,
  written: Written,
): Value | Extract<Written, undefined> {
  if (written === undefined) return written as Extract<Written, undefined>
  const { data, error } = leaf.safeParse(written)
  if (error) throw new Fault('usage', `--${name} ${error.issues[0]?.message}`)
  return data
}

/** Codes of faults of the command line, or of the configuration that it names. */
const REFUSING = new Set(['usage', 'other_revision', 'config_refused'])

export const exitCodeOf = (error: unknown): number =>
  REFUSING.has(asFault(error).code) ? REFUSED : FAILED

function asFault(error: unknown): Fault {
  if (error instanceof Fault) return error
  if (error instanceof ConfigError) return new Fault('config_refused', error.format().join('\n'))
  return new Fault('failed', (error as Error).message)
}

/** Lines for the standard error: one line of JSON for a program; every problem of a configuration has a line. */
export function faultLines(error: unknown, isJson: boolean): string[] {
  if (error instanceof ConfigError && !isJson) return error.format()
  const { code, message, why } = asFault(error)
  const { reason: cause, remedy } = why
  if (isJson)
    return [
      JSON.stringify({ error: { code, message, cause: cause ?? null, remedy: remedy ?? null } }),
    ]
  const more = Object.entries({ cause, remedy }).filter(([, text]) => text !== undefined)
  return [`tollgate: ${message}`, ...more.map(([name, text]) => `  ${name.padEnd(7)} ${text}`)]
}
