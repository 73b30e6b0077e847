import { expect, it } from 'vitest'
import { markedLines } from '../../../src/config/changes/line-diff.ts'
import { words } from '../../support/words.ts'

it.each([
  ['a b c', 'a b c', 'a b c'],
  ['a b c', 'a x c', 'a -b +x c'],
  ['a b c', 'a c', 'a -b c'],
  ['a c', 'a b c d', 'a +b c +d'],
  ['a', 'b c', '-a +b +c'],
  ['a b c d', 'b x d e', '-a b -c +x d +e'],
  // A block whose lines others have, too.
  ['- a x - b x - c y', '- a x - c y', '- a x - -b -x -- c y'],
])('from %j to %j is %s', (before, after, expected) => {
  const marked = markedLines(words(before), words(after))
  expect(marked.map(([sign, line]) => sign.trim() + line)).toEqual(words(expected))
})
