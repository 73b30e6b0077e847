/**
 * The last step before a line reaches a terminal or a pipe: it makes sure that a terminal only shows the line.
 * Logs, admin servers and files are written by others; an escape sequence in them could rewrite what is on the screen.
 */
import type { Edge } from '../edge.ts'

/**
 * First what stays: line ends, tabs, and the colours of our own output, as `styleText` of Node.js writes them. Then control and
 * format characters, those that reverse the direction of writing, and halves of surrogate pairs.
 */
const ESCAPE = '\x1b'
const special = new RegExp(
  `(\r?\n|\r$|\t|${ESCAPE}\\[(?:3[1-3]|39|22?)m)|[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Zl}\\p{Zp}]`,
  'gu',
)

/** Unprintable characters become `\uXXXX`, which is their form in JSON too: a line of JSON keeps its meaning. */
export const printable = (text: string): string =>
  text.replace(special, (character, kept?: string) => {
    const escaped = (unit: string) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
    return kept ?? character.split('').map(escaped).join('')
  })

/** Wraps outputs so that they print escaped lines only. */
export const printingSafely = <Given extends Pick<Edge, 'print' | 'complain' | 'progress'>>(
  output: Given,
): Given => ({
  ...output,
  print: (line) => output.print(printable(line)),
  complain: (line) => output.complain(printable(line)),
  progress: output.progress && ((line) => output.progress?.(printable(line))),
})
