/**
 * Reads clients in plain form, of JSON lines and of YAML as `tollgate keys new` writes it, at a small part of the cost of the
 * schema: the known keys alone, and values as src/config/scalars.ts shapes them. What is taken is valid and means the same
 * there; anything else is left to the schema, which may still accept it or reports its faults.
 */
import type { KeyConfig, Limits, WrittenClient } from '../config.ts'
import { clientIdShape, dateMs, isReservedName, keyIdShape } from '../scalars.ts'
import { byLimit, limitKeys, windows } from '../time.ts'
import { textAt, type Group, type Tree } from '../tree.ts'

/** Parsed dates that are kept, as most keys of a file end on few of them. */
const DATES_KEPT = 10_000

export class PlainClients {
  /** Whether the clients of a plan state their own limits, by its name. */
  readonly #isCustom: ReadonlyMap<unknown, boolean>
  readonly #dates = new Map<string, number>()

  /** plans: the group `plans` of the configuration. */
  constructor(plans: Group) {
    this.#isCustom = new Map(
      Object.keys(plans).map((name) => [name, textAt(plans, name, 'custom') === 'true']),
    )
  }

  /** given: the value that the text of a client has been parsed to. Returns undefined where it is not plain. */
  read(given: unknown): WrittenClient | undefined {
    if (!hasOnly(given, ofClient)) return undefined
    const { id, plan, limits, keys = [] } = given
    const isCustom = this.#isCustom.get(plan)
    if (!isId(id, clientIdShape) || isCustom !== (limits !== undefined)) return undefined
    const own = limits === undefined ? undefined : readLimits(limits)
    if (isCustom && own === undefined) return undefined
    const read = Array.isArray(keys) ? this.#keys(keys) : undefined
    return read && { id, plan: plan as string, limits: own, keys: read }
  }

  #keys(given: readonly unknown[]): KeyConfig[] | undefined {
    const keys: KeyConfig[] = []
    for (const one of given) {
      if (!hasOnly(one, ofKey)) return undefined
      const { id, sha256, expires } = one
      if (!isId(id, keyIdShape) || id.startsWith('jwt:')) return undefined
      if (typeof sha256 !== 'string' || !isDigest(sha256)) return undefined
      const expiresAtMs = typeof expires === 'string' ? this.#date(expires) : undefined
      if (expires !== undefined && expiresAtMs === undefined) return undefined
      keys.push({ id, sha256, expiresAtMs })
    }
    return keys
  }

  #date(written: string): number | undefined {
    const read = this.#dates.get(written) ?? dateMs.safeParse(written).data
    if (read !== undefined && this.#dates.size < DATES_KEPT) this.#dates.set(written, read)
    return read
  }
}

const ofClient = new Set(['id', 'plan', 'limits', 'keys'])
const ofKey = new Set(['id', 'sha256', 'expires'])
const ofLimits = new Set<string>(limitKeys)

const hasOnly = (given: unknown, known: ReadonlySet<string>): given is Record<string, unknown> => {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) return false
  for (const key in given) if (!known.has(key)) return false
  return true
}

const isId = (given: unknown, shape: RegExp): given is string =>
  typeof given === 'string' && shape.test(given) && !isReservedName(given)

/** Twice as fast as the shape of the schema, which a test holds it to. */
const isDigest = (text: string): boolean => text.length === 64 && !/[^0-9A-Fa-f]/.test(text)

const readLimits = (given: unknown): Limits | undefined => {
  if (!hasOnly(given, ofLimits)) return undefined
  const limits = byLimit(({ limit, most }) => readCount(given[limit], most))
  const counts = Object.values(limits)
  const areOrdered = counts.every((count, index) => count >= Math.max(1, counts[index - 1] ?? 0))
  return areOrdered ? limits : undefined
}

/** Returns 0 for what is no count in digits alone, or above the most. */
const readCount = (given: unknown, most: number): number => {
  const text = typeof given === 'number' ? String(given) : given
  const isCount = typeof text === 'string' && /^[1-9][0-9]*$/.test(text)
  return isCount && Number(text) <= most ? Number(text) : 0
}

/** Parses a line of JSONL; undefined: it is no JSON, or is not written as JSON.stringify writes it, with blanks if wanted. */
export const parsePlainLine = (line: string): unknown => {
  const text = line.endsWith('\r') ? line.slice(0, -1) : line
  try {
    const given: unknown = JSON.parse(text)
    // The parser hides keys that are written twice, escapes and other spellings of numbers; the schema judges those.
    return JSON.stringify(given) === text.replaceAll(' ', '') ? given : undefined
  } catch {
    return undefined
  }
}

const value = '([A-Za-z0-9][A-Za-z0-9_.:@+-]*(?<!:))'
/** Groups of the pattern: indent, id, plan, all limits, keys. */
const item = new RegExp(
  [
    `^( *)- id: ${value}\n\\1  plan: ${value}\n`,
    `(?:\\1  limits: \\{ ${limitKeys.map((name) => `${name}: (\\d+)`).join(', ')} \\}\n)?`,
    `(?:\\1  keys:\n((?:\\1 {4}- id: ${value}\n\\1 {6}sha256: ${value}\n`,
    `(?:\\1 {6}expires: ${value}\n)?)+))?$`,
  ].join(''),
)
const key = /- id: (.*)\n *sha256: (.*)\n(?: *expires: (.*)\n)?/g
const comments = /^[ ]*(?:#[ -~]*)?\n/gm

/**
 * Parses an item of a YAML list that has one key or dash per line, values without quotes and comments on lines of their own,
 * at a tenth of the cost of a YAML parser; undefined: it is written otherwise.
 */
export const parsePlainItem = (text: string): Tree | undefined => {
  const lines = text.replaceAll('\r\n', '\n')
  const found = item.exec(lines) ?? item.exec(`${lines}\n`.replace(comments, ''))
  if (found === null) return undefined
  const [, , id = '', plan = '', ...rest] = found
  const list = rest[limitKeys.length]
  const keys = Array.from(
    list?.matchAll(key) ?? [],
    ([, id = '', sha256 = '', expires]): Group => ({
      id,
      sha256,
      ...(expires !== undefined && { expires }),
    }),
  )
  return {
    id,
    plan,
    ...(rest[0] !== undefined && {
      limits: byLimit((window) => rest[windows.indexOf(window)] ?? ''),
    }),
    ...(list !== undefined && { keys }),
  }
}
