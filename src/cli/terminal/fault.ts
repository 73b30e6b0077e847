/** Faults of commands: what went wrong, why, and what helps; and their exit codes. */

export const OK = 0
export const FAILED = 1
/** The command line or the config cannot be taken. */
export const REFUSED = 2

interface Why {
  readonly reason?: string | undefined
  readonly remedy?: string | undefined
  readonly cause?: unknown
}

export class Fault extends Error {
  readonly code: string
  readonly why: Why

  /** code: for programs, as in the admin API. */
  constructor(code: string, message: string, why: Why = {}) {
    super(message, { cause: why.cause })
    this.code = code
    this.why = why
  }
}

export const HELP_HINT = 'Add --help to see what is taken.'

export const usageFault = (message: string): Fault =>
  new Fault('usage', message, { remedy: HELP_HINT })

/** Lines for the standard error: one line of JSON for a program. */
export function faultLines(error: unknown, isJson: boolean): string[] {
  const fault = error instanceof Fault ? error : new Fault('failed', (error as Error).message)
  const { code, message } = fault
  const { reason: cause, remedy } = fault.why
  if (isJson)
    return [
      JSON.stringify({ error: { code, message, cause: cause ?? null, remedy: remedy ?? null } }),
    ]
  const more = Object.entries({ cause, remedy }).filter(([, text]) => text !== undefined)
  return [`tollgate: ${message}`, ...more.map(([name, text]) => `  ${name.padEnd(7)} ${text}`)]
}
