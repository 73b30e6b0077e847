/** Messages for text that is not YAML, and the place to look at. None quotes the file, which may hold a secret there. */

export interface YamlFault {
  readonly code: string
  readonly message: string
  readonly pos: readonly [number, number]
}

interface LocatedMessage {
  readonly offset: number
  readonly message: string
}

export const tagFault = 'has a tag; remove it, each key knows its type'

const indentFault =
  'is indented unlike the lines beside it; give all keys and dashes of one group the same number of blanks'

const knownFaults: ReadonlyMap<string, string> = new Map([
  ['MULTIPLE_DOCS', 'has a second document here; keep one document in the file'],
  ['TAG_RESOLVE_FAILED', tagFault],
  ['BAD_DIRECTIVE', 'has a directive here; remove the line that starts with "%"'],
  ['BAD_DQ_ESCAPE', 'has an unknown escape in double quotes; write \\\\ for a plain \\'],
  ['TAB_AS_INDENT', 'is indented with a tab; use blanks'],
  [
    'MULTILINE_IMPLICIT_KEY',
    'has no ": " on this line; write KEY: VALUE, with a blank before VALUE',
  ],
  [
    'BLOCK_AS_IMPLICIT_KEY',
    'has a second ": " on this line; put the value in quotes, or each key on a line of its own',
  ],
])

const misaligned = /at the same column$|^Sequence item without - indicator$/

/** The first character at or after the offset that is no blank. */
const afterBlanks = (text: string, offset: number): number =>
  offset + (/^ */.exec(text.slice(offset))?.[0].length ?? 0)

const describe = (text: string, fault: YamlFault, others: readonly YamlFault[]): LocatedMessage => {
  const { code, message, pos } = fault
  const [offset] = pos
  const isDeeper =
    code.endsWith('_IMPLICIT_KEY') &&
    others.filter((other) => other.code.endsWith('_IMPLICIT_KEY') && other.pos[0] === offset)
      .length > 1
  if (isDeeper) {
    // A line that is indented more goes on with the value above.
    const next = text.indexOf('\n', offset) + 1
    return { offset: afterBlanks(text, next), message: indentFault }
  }
  const startsLine = code === 'UNEXPECTED_TOKEN' && text[offset - 1] === '\n'
  if (misaligned.test(message) || startsLine)
    return { offset: afterBlanks(text, offset), message: indentFault }
  const reason = message.replace(/(?<=\w): .*$/s, '')
  return {
    offset,
    message: knownFaults.get(code) ?? `is not YAML (${reason}); correct the text here`,
  }
}

/** One problem per place. `quoted`: start and end of each quoted value. */
export const describeYamlFaults = (
  text: string,
  faults: readonly YamlFault[],
  quoted: readonly (readonly [number, number])[],
): LocatedMessage[] => {
  const unclosed = faults.find(({ message }) => message.startsWith('Missing closing'))
  if (unclosed !== undefined) {
    // The parser searches all that follows for the closing quote, and so misreads it.
    const [offset] = quoted.find(([, end]) => end === unclosed.pos[0]) ?? unclosed.pos
    return [
      { offset, message: 'has a quote that nothing closes; end the value with the same quote' },
    ]
  }
  // An unexpected token misplaces all that follows it.
  const first = faults.findIndex(({ code }) => code === 'UNEXPECTED_TOKEN')
  const problems = faults
    .filter(({ code }, index) => code !== 'UNEXPECTED_TOKEN' || index === first)
    .map((fault) => describe(text, fault, faults))
  return problems.filter(
    ({ offset }, index) => problems.findIndex((other) => other.offset === offset) === index,
  )
}
