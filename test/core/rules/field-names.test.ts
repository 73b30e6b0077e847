import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import * as rules from '../../../src/core/rules/field-names.ts'

const { connectionOptions, isFieldName, isFieldValue } = rules
const kindOf = rules.fieldNames({ 'content-length': 'length', 'x-client-*': 'identity', te: 'te' })

describe('field names', () => {
  it.each([
    ['Content-Length', 'length'],
    ['x_client_', 'identity'],
    ['TE', 'te'],
    ['', undefined],
    ['Ä', undefined],
    ['\u0154E', undefined],
  ])('takes %s for %s', (name, kind) => {
    expect(kindOf(name)).toBe(kind)
  })

  it('agrees with a plain regular expression on any token', () => {
    const unit = fc.constantFrom(...Array.from('contelghxidCONTELGHXID-_.0~'))
    const edit = fc.constantFrom('same', 'upper', '_', '.', 'x')
    const near = fc.constantFrom('content-length', 'te', 'x-client-id', 'x-client-').chain((text) =>
      fc.tuple(...Array.from(text, () => edit)).map((edits) =>
        text.replaceAll(/./g, (char, at: number) => {
          if (edits[at] === 'upper') return char.toUpperCase()
          return edits[at] === 'same' || char !== '-' ? char : (edits[at] ?? '')
        }),
      ),
    )
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit, maxLength: 16 }), near), (text) => {
        const expected = /^content[^a-z0-9]length$/i.test(text)
          ? 'length'
          : /^x[^a-z0-9]client[^a-z0-9]/i.test(text)
            ? 'identity'
            : /^te$/i.test(text)
              ? 'te'
              : undefined
        expect(kindOf(text)).toBe(expected)
      }),
      { numRuns: 500, seed: 1 },
    )
  })

  it('tells field values and names from what cannot be written', () => {
    for (const text of ['', 'a b\tc', '\x80\xff', '~']) expect(isFieldValue(text)).toBe(true)
    for (const text of ['\0', 'a\r', 'a\nb', '\x7f', '\u0100'])
      expect(isFieldValue(text)).toBe(false)
    for (const text of ['a', "!#$%&'*+-.^_`|~09AZ"]) expect(isFieldName(text)).toBe(true)
    for (const text of ['', 'a b', 'a:', 'ä', 'a\n']) expect(isFieldName(text)).toBe(false)
  })

  it('gathers the options of several Connection fields in lower case', () => {
    const first = connectionOptions('Upgrade, X-Foo')
    const all = connectionOptions(' bar ,close', first)
    expect(all).toEqual(new Set(['upgrade', 'x-foo', 'bar', 'close']))
    expect(first).toEqual(new Set(['upgrade', 'x-foo']))
    expect(connectionOptions('keep-alive').size).toBe(0)
  })
})
