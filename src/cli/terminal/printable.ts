/**
 * The last step before a line reaches a terminal or a pipe: it makes sure that a terminal only shows the line.
 * Logs, admin servers and files are written by others; an escape sequence in them could rewrite what is on the screen.
 */
import type { Edge } from '../edge.ts'

/** Control and format characters, those that reverse the direction of writing, and halves of surrogate pairs; no line end, no tab. */
const unprintable = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu
const ESCAPE = '\x1b'
/** The colours of our own output, as `styleText` of Node.js writes them. */
const ownColour = new RegExp(`${ESCAPE}\\[(?:3[1-3]|39|22?)m`, 'y')

/**
 * Unprintable characters become `\uXXXX`, which is their form in JSON too: a line of JSON keeps its meaning. Line ends, tabs, a
 * carriage return before a line end and our own colours stay.
 */
export const printable = (text: string): string =>
  text.replace(unprintable, (character, at: number) => {
    if (character === '\n' || character === '\t') return character
    if (character === '\r' && (at + 1 === text.length || text[at + 1] === '\n')) return character
    ownColour.lastIndex = at
    if (character === ESCAPE && ownColour.test(text)) return character
    return [...Array(character.length).keys()]
      .map((unit) => `\\u${character.charCodeAt(unit).toString(16).padStart(4, '0')}`)
      .join('')
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
