/** Faults of a configuration: what is wrong, where, and how it is reported. */

/** Keys and list indexes from the root of the file to a value. */
export type Path = readonly (string | number)[]

/** A fault found before its place in the file is known. */
export interface PathProblem {
  readonly path: Path
  /** Whether the key itself is at fault, or what stands under it. */
  readonly at: 'key' | 'value'
  /** `fault; remedy`, worded so that showValue can put the value before it. */
  readonly message: string
}

export const problem = (
  path: Path,
  message: string,
  at: PathProblem['at'] = 'value',
): PathProblem => ({ path, at, message })

export type Refuse = (...fault: Parameters<typeof problem>) => void

/** All problems that a check refuses a configuration for. */
export const problemsOf = (check: (refuse: Refuse) => void): PathProblem[] => {
  const problems: PathProblem[] = []
  check((...fault) => problems.push(problem(...fault)))
  return problems
}

/** Most problems that are reported; looking for more would cost much and help nobody. */
export const PROBLEMS_AT_MOST = 100

/** Line and column count from 1. */
export interface Place {
  readonly line: number
  readonly column: number
}

export interface ConfigProblem extends Place {
  /** Left out: the configuration itself. */
  readonly file?: string | undefined
  /** Empty where the fault is not under a key. */
  readonly path: Path
  /** `fault; remedy`. */
  readonly message: string
}

export const ofWholeFile = (message: string): ConfigProblem => ({
  line: 1,
  column: 1,
  path: [],
  message,
})

const plainKey = /^[A-Za-z0-9_-]{1,64}$/

/** Keys that are not plain words are quoted, escaped and cut, so that no file can forge a line of output. */
const formatKey = (key: string): string =>
  plainKey.test(key) ? key : JSON.stringify(key.slice(0, 64)).replaceAll(/[^ -~]/g, '?')

/** Writes a path as `clients[0].keys[1].sha256`; the root is `(file)`. */
export const formatPath = (path: Path): string => {
  let text = ''
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`
    else text += text === '' ? formatKey(step) : `.${formatKey(step)}`
  }
  return text === '' ? '(file)' : text
}

/** Keys whose values are secrets. */
const secretName = /sha256|password|secret/i
/** Matches our own keys, and whatever may have a password before an @. */
const secretLook = /^tg_|@/

/** Puts the value in front of the message, unless it may be a secret. */
export const showValue = (found: PathProblem, value: string | undefined): PathProblem => {
  const key = String(found.path.at(-1))
  const isHidden =
    value === undefined ||
    found.at === 'key' ||
    secretName.test(key) ||
    key === 'url' ||
    secretLook.test(value)
  if (isHidden) return found
  const shown = value.length > 100 ? `${value.slice(0, 100)}...` : value
  const quoted = JSON.stringify(shown).replaceAll(/[^ -~]/g, '?')
  return { ...found, message: `${quoted} ${found.message}` }
}

/** A password may hold an @ of its own: the last one before the path ends the login. */
const loginInUrl = /^([a-z][a-z0-9+.-]*:\/\/)[^/?#]*@/i

/** The settings to show to operators: no secret, and no digest of one. */
export function withoutSecrets(value: unknown): unknown {
  if (typeof value === 'string') return value.replace(loginInUrl, '$1')
  if (Array.isArray(value)) return value.map(withoutSecrets)
  if (typeof value !== 'object' || value === null) return value
  const shown = Object.entries(value).filter(([name]) => !secretName.test(name))
  return Object.fromEntries(shown.map(([name, inner]) => [name, withoutSecrets(inner)]))
}

export const inOrder = (problems: readonly ConfigProblem[]): ConfigProblem[] =>
  [...problems].sort(
    (a, b) => (a.file ?? '').localeCompare(b.file ?? '') || a.line - b.line || a.column - b.column,
  )

/** One line: `FILE:line:col path: fault; remedy`. */
export const formatProblem = (
  main: string,
  { file = main, line, column, path, message }: ConfigProblem,
): string => `${file}:${line}:${column} ${formatPath(path)}: ${message}`

/** A configuration that is refused whole, with every problem found, in the order of the file. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly file: string
  readonly problems: readonly ConfigProblem[]

  constructor(file: string, problems: readonly ConfigProblem[]) {
    super(`${file}: ${problems.length} problem${problems.length === 1 ? '' : 's'}`)
    this.file = file
    this.problems = inOrder(problems).slice(0, PROBLEMS_AT_MOST)
  }

  /** One line per problem. */
  format(): string[] {
    const lines = this.problems.map((each) => formatProblem(this.file, each))
    if (lines.length < PROBLEMS_AT_MOST) return lines
    return [...lines, `${this.file}: there may be more; the search ended at ${PROBLEMS_AT_MOST}`]
  }
}
