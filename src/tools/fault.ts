/** A fault of a tool or a command: what went wrong, why, and what helps. */
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
