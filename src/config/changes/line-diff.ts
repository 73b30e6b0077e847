/** Marks the lines in which one text differs from another. */

/** `-`: a line that goes, `+`: one that comes, a blank: one that stays. */
export type MarkedLine = readonly [sign: '-' | '+' | ' ', line: string]

export function markedLines(before: readonly string[], after: readonly string[]): MarkedLine[] {
  const least = Math.min(before.length, after.length)
  let head = 0
  while (head < least && before[head] === after[head]) head++
  let tail = 0
  while (tail < least - head && before.at(-1 - tail) === after.at(-1 - tail)) tail++
  const kept = (lines: readonly string[]) => lines.map((line): MarkedLine => [' ', line])
  return [
    ...kept(before.slice(0, head)),
    ...differing(before.slice(head, before.length - tail), after.slice(head, after.length - tail)),
    ...kept(before.slice(before.length - tail)),
  ]
}

/** Beyond it, which is some 20 ms, whatever goes stands before whatever comes. */
const MOST_CELLS = 4_000_000

/** Keeps the longest sequence of lines that both have. */
function differing(before: readonly string[], after: readonly string[]): MarkedLine[] {
  const width = after.length + 1
  const cells = (before.length + 1) * width
  /** How many lines both have in common from one of each on. */
  const common = new Uint32Array(cells > MOST_CELLS ? 0 : cells)
  const from = (at: number, to: number) => common[at * width + to] ?? 0
  for (let at = before.length - 1; at >= 0 && common.length > 0; at--)
    for (let to = after.length - 1; to >= 0; to--) {
      const without = Math.max(from(at + 1, to), from(at, to + 1))
      common[at * width + to] = before[at] === after[to] ? from(at + 1, to + 1) + 1 : without
    }
  const marked: MarkedLine[] = []
  for (let [at, to] = [0, 0]; at < before.length || to < after.length;) {
    const [was, is] = [before[at], after[to]]
    const isGone = is === undefined || from(at + 1, to) >= from(at, to + 1)
    if (was !== undefined && was === is) marked.push([' ', was])
    else if (was !== undefined && isGone) marked.push(['-', was])
    else marked.push(['+', is ?? ''])
    const [sign] = marked.at(-1) ?? []
    if (sign !== '+') at++
    if (sign !== '-') to++
  }
  return marked
}
