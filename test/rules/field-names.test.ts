import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  connectionOptions,
  fieldNames,
  isFieldName,
  isFieldValue,
} from '../../src/rules/field-names.ts'

const kindOf = fieldNames({ 'content-length': 'length', 'x-client-*': 'identity', te: 'te' })

describe('field names', () => {
  it.each([
    ['Content-Length', 'length'],
    ['CONTENT_LENGTH', 'length'],
    ['content.length', 'length'],
    ['X-Client-Id', 'identity'],
    ['x_client_', 'identity'],
    ['X_Client-Anything', 'identity'],
    ['TE', 'te'],
    ['Content-Lengths', undefined],
    ['Content-Lengt', undefined],
    ['ContentxLength', undefined],
    ['Content0Length', undefined],
    ['X-Client', undefined],
    ['T-', undefined],
    ['', undefined],
    ['Ä', undefined],
    ['\u0154E', undefined],
  ])('takes %s for %s', (name, kind) => {
    expect(kindOf(name)).toBe(kind)
  })

  it('agrees with a plain regular expression on any token', () => {
    const name = fc.string({
      unit: fc.constantFrom(...Array.from('contelghxidCONTELGHXID-_.0~')),
      maxLength: 16,
    })
    const near = fc.constantFrom('content-length', 'te', 'x-client-id', 'x-client-').chain((text) =>
      fc
        .array(fc.constantFrom('same', 'upper', '_', '.', 'x'), {
          minLength: text.length,
          maxLength: text.length,
        })
        .map((edits) =>
          Array.from(text)
            .map((char, at) => {
              const edit = edits[at]
              if (edit === 'upper') return char.toUpperCase()
              return edit === 'same' || char !== '-' ? char : (edit ?? '')
            })
            .join(''),
        ),
    )
    fc.assert(
      fc.property(fc.oneof(name, near), (text) => {
        const expected = /^content[^a-z0-9]length$/i.test(text)
          ? 'length'
          : /^x[^a-z0-9]client[^a-z0-9]/i.test(text)
            ? 'identity'
            : /^te$/i.test(text)
              ? 'te'
              : undefined
        expect(kindOf(text)).toBe(expected)
      }),
      { numRuns: 500 },
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
    expect(connectionOptions(' bar ,close', first)).toEqual(
      new Set(['upgrade', 'x-foo', 'bar', 'close']),
    )
    expect(first).toEqual(new Set(['upgrade', 'x-foo']))
    expect(connectionOptions('keep-alive').size).toBe(0)
  })
})
