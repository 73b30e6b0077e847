/**
 * Parses an item of a YAML list that is written as `tollgate keys new` writes it, at a tenth of the cost of a YAML
 * parser: one key or dash per line, values without quotes, comments on lines of their own.
 */
import type { Group, Tree } from '../tree.ts'

const value = '([A-Za-z0-9][A-Za-z0-9_.:@+-]*(?<!:))'
/** Groups of the pattern: indent, id, plan, both limits, keys. */
const item = new RegExp(
  [
    `^( *)- id: ${value}\n\\1  plan: ${value}\n`,
    `(?:\\1  limits: \\{ perMinute: (\\d+), perDay: (\\d+) \\}\n)?`,
    `(?:\\1  keys:\n((?:\\1 {4}- id: ${value}\n\\1 {6}sha256: ${value}\n`,
    `(?:\\1 {6}expires: ${value}\n)?)+))?$`,
  ].join(''),
)
const key = /- id: (.*)\n *sha256: (.*)\n(?: *expires: (.*)\n)?/g
const comments = /^[ ]*(?:#[ -~]*)?\n/gm

/** Returns what YAML makes of it; undefined: it is written otherwise. */
export const readPlainItem = (text: string): Tree | undefined => {
  const lines = text.replaceAll('\r\n', '\n')
  const found = item.exec(lines) ?? item.exec(`${lines}\n`.replace(comments, ''))
  if (found === null) return undefined
  const [, , id = '', plan = '', perMinute, perDay, list] = found
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
    ...(perMinute !== undefined && perDay !== undefined && { limits: { perMinute, perDay } }),
    ...(list !== undefined && { keys }),
  }
}
