import { styleText } from 'node:util'
import { describe, expect, it } from 'vitest'
import { printable, printingSafely } from '../../../src/cli/terminal/printable.ts'

const painted = styleText('red', 'bad', { validateStream: false })

describe('what is printed', () => {
  it.each([
    ['plain text', 'Grüße, 東京 – ✓ 🐕', 'Grüße, 東京 – ✓ 🐕'],
    ['several lines, with tabs', 'a\tb\nc', 'a\tb\nc'],
    ['the line end of a CSV', 'a,b\r', 'a,b\r'],
    ['our own colours', painted, painted],
    ['an escape sequence', 'a\x1b[2Jb', 'a\\u001b[2Jb'],
    ['a title for the window', '\x1b]0;x\x07', '\\u001b]0;x\\u0007'],
    ['a control sequence of eight bits', '\u009b2J', '\\u009b2J'],
    ['another direction of writing', 'a\u202eb', 'a\\u202eb'],
    ['nothing to see', 'a\u200b\u{e0041}', 'a\\u200b\\udb40\\udc41'],
    ['a carriage return in its midst', 'good\rbad', 'good\\u000dbad'],
    ['half a character', 'a\ud800', 'a\\ud800'],
  ])('of %s does nothing to a terminal', (_, text, shown) => expect(printable(text)).toBe(shown))

  it('is the same JSON as before', () => {
    const value = { path: '/\u009b2J\u202e\x1b[0m', '\u200b': ['\ud800', '🐕'] }
    const line = printable(JSON.stringify(value))
    expect(line).toMatch(/^[\x20-\x7e🐕]+$/u)
    expect(JSON.parse(line)).toEqual(value)
  })
})

it('of whatever is printed, complained of or told of progress nothing reaches a terminal as it came', () => {
  const shown: string[] = []
  const show = (line: string): unknown => shown.push(line)
  const output = printingSafely({ print: show, complain: show, progress: show })
  for (const say of [output.print, output.complain, output.progress]) say('a\x1b[2Jb')
  expect(shown).toEqual(Array(3).fill('a\\u001b[2Jb'))
})
