/** An explanation as lines of a terminal: the request, the answer, each stage, and what would change it. */
import type { Explanation } from '../../insight/api/explain.ts'
import { wordsOf } from '../../admin/page/explained.js'
import { safe } from '../terminal/look.ts'

/** Minimum width for the finding of a stage. */
const RULE_AT_LEAST = 24

/** columns: width of a line. nowMs: Unix time; times of its day are written without the date. */
export function explainedLines(explanation: Explanation, columns: number, nowMs: number): string[] {
  const { asked, answer, stages, more } = wordsOf(explanation, nowMs)
  const widest = (cells: readonly string[]): number =>
    Math.max(...cells.map((cell) => safe(cell).length))
  const [stageWidth, verdictWidth] = [
    widest(stages.map(({ stage }) => stage)),
    widest(stages.map(({ verdict }) => verdict)),
  ]
  const before = 2 + stageWidth + 1 + verdictWidth + 1
  const placeWidth = widest(stages.map(({ config }) => config))
  const room = Math.max(RULE_AT_LEAST, columns - before - 1 - placeWidth)
  const rules = stages.map(({ rule }) => folded(safe(rule).split(' '), room, ' ', ''))
  const ruleWidth = widest(rules.flat())
  return [
    ...folded(asked.map(safe), columns, '  '),
    ...folded(safe(`= ${answer}`).split(' '), columns, ' '),
    ...stages.flatMap(({ stage, decides, verdict, config }, at) => {
      const [first = '', ...rest] = rules[at] ?? []
      const head = `${decides ? '* ' : '  '}${stage.padEnd(stageWidth)} ${verdict.padEnd(verdictWidth)} `
      const lines = rest.map((line) => ' '.repeat(before) + line)
      return [`${head}${first.padEnd(ruleWidth)} ${safe(config)}`.trimEnd(), ...lines]
    }),
    ...more.flatMap(([name, text]) => folded(safe(`${name}: ${text}`).split(' '), columns, ' ')),
  ]
}

/** Folds words into lines, indented after the first. Words are never cut: one longer than a line stands alone. */
function folded(
  words: readonly string[],
  columns: number,
  gap: string,
  indent = '  ',
): readonly string[] {
  const lines: string[] = []
  let line = words[0] ?? ''
  for (const word of words.slice(1)) {
    if (line.length + gap.length + word.length <= columns) line += gap + word
    else {
      lines.push(line)
      line = indent + word
    }
  }
  return [...lines, line]
}
