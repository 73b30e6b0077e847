/** Whatever the text: it is a configuration, or all its problems have a place, a fault and a remedy. */
import * as fc from 'fast-check'
import { expect } from 'vitest'
import { parseConfigText } from '../../src/config/clients/load.ts'
import { ConfigError } from '../../src/config/problems.ts'
import { anyCharacter } from '../support/any-character.ts'
import { words as wordsOf } from '../support/words.ts'
import { gatewayYaml } from './examples.ts'

function judge(text: string): void {
  try {
    parseConfigText(text, { file: 'FILE', env: { SET: 'value' } })
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    expect(error.problems).not.toEqual([])
    for (const { line, column, message } of error.problems) {
      expect(line).toBeGreaterThanOrEqual(1)
      expect(line).toBeLessThanOrEqual(text.split('\n').length)
      expect(column).toBeGreaterThanOrEqual(1)
      expect(message).toMatch(/^(?:"(?:[^"\\]|\\.)*" )?[^;]+; [^;]/)
    }
    for (const line of error.format()) expect(line).not.toMatch(/\p{Cc}/u)
  }
}

const keys =
  wordsOf(`server admin upstream store plans clients anonymous jwt bans routes log listen id
  plan keys sha256 match deprecated since limits perMinute perDay redis __proto__ constructor <<`)
const values =
  'free|GET /a|127.0.0.1:0|10|1e3|~|true|${SET}|${NO}|${|$${|&a |*a|!!int |!x!y |---|...|%YAML 1.1|\uFEFF|\u0000'.split(
    '|',
  )
const marks = [': ', ':', '\n', '\n  ', '\n    ', '\n  - ', '- ', '{ ', ' }', '[', ']', ', ']
const quotes = ['"', "'", '# ', '\t', '|', '>', '? ', '@', '']
const words = [...keys, ...values, ...marks, ...quotes]

/** Of which each is judged: made of what a configuration is made of, a sound file that is damaged, any value under any key. */
const texts = {
  ofPieces: fc.oneof(
    fc.array(fc.constantFrom(...words), { maxLength: 40 }).map((parts) => parts.join('')),
    fc.string({ unit: anyCharacter, maxLength: 80 }),
    fc.jsonValue({ maxDepth: 4 }).map((value) => JSON.stringify(value)),
  ),
  damaged: fc
    .tuple(fc.nat({ max: gatewayYaml.length }), fc.nat({ max: 60 }), fc.constantFrom(...words))
    .map(([at, length, word]) => gatewayYaml.slice(0, at) + word + gatewayYaml.slice(at + length)),
  ofAnyValue: fc
    .dictionary(
      fc.constantFrom(...keys),
      fc.letrec<{ tree: unknown }>((tie) => ({
        tree: fc.oneof(
          { maxDepth: 4 },
          fc.constantFrom(...values, ...quotes),
          fc.array(tie('tree'), { maxLength: 3 }),
          fc.dictionary(fc.constantFrom(...keys), tie('tree'), { maxKeys: 5 }),
        ),
      })).tree,
      { maxKeys: 6 },
    )
    .map((tree) => JSON.stringify(tree)),
}

export const areJudged = (kind: keyof typeof texts, how: fc.Parameters<[string]>): void =>
  fc.assert(fc.property(texts[kind], judge), how)
