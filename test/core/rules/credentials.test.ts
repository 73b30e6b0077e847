import { describe, expect, it } from 'vitest'
import { isRefusal } from '../../../src/core/rules/refusals.ts'
import { createCaller, isJwtForm, readBearer } from '../../../src/core/rules/credentials.ts'
import { words } from '../../support/words.ts'

const outcome = (authorization?: string, count = authorization === undefined ? 0 : 1) => {
  const read = readBearer(authorization, count)
  return isRefusal(read) ? read.code : `token ${read}`
}

describe('readBearer', () => {
  it.each([
    ['token abc', 'Bearer abc|bearer abc|BEARER   abc'],
    ['token aZ09-._~+/==', 'Bearer aZ09-._~+/=='],
    ['missing_api_key', '|   |Bearerabc|abc|a.b-c_d+e/f=='],
    ['invalid_api_key', 'Bearer|Bearer |Bearer\tabc|Bearer abc |Bearer abc\n|Bearer a=b|Bearer ='],
    ['invalid_api_key', 'Bearer abc, Bearer abc|Bearer "abc"|Bearer \u00e4bc|Basic dXNlcg==|abc '],
  ])('gives %s for each of %j', (expected, headers) => {
    for (const header of headers.split('|')) expect(outcome(header), header).toBe(expected)
  })

  it('misses a key where there is no header', () => {
    expect(outcome(undefined)).toBe('missing_api_key')
  })

  it('refuses two Authorization headers, whatever they hold', () => {
    expect(outcome('Bearer abc', 2)).toBe('invalid_api_key')
  })

  it('reads a token of 8192 characters and refuses a longer one', () => {
    expect(outcome(`Bearer ${'a'.repeat(8192)}`)).toBe(`token ${'a'.repeat(8192)}`)
    expect(outcome(`Bearer ${'a'.repeat(8193)}`)).toBe('invalid_api_key')
  })

  it('keeps the credential out of the cause', () => {
    expect(JSON.stringify(readBearer('Basic c2VjcmV0', 1))).not.toContain('c2VjcmV0')
  })
})

describe('isJwtForm', () => {
  it.each(words('a.b.c aZ0-_.b.c'))('is that of %s', (token) => {
    expect(isJwtForm(token)).toBe(true)
  })

  const others = words('a.b a.b. .b.c a.b.c.d a.b.c= a.b.c+ a.b.c/')
  it.each([...others, 'a.b.c ', 'a.b.c\n', `a.b.${'c'.repeat(8192)}`])('is not %j', (token) => {
    expect(isJwtForm(token)).toBe(false)
  })
})

describe('createCaller', () => {
  it('freezes the caller and adds the policy of its limits', () => {
    const limits = { perMinute: 60, perDay: 1000 }
    const client = { id: 'acme', plan: 'free', limits, concurrent: 32 }
    const caller = createCaller(client, { id: 'acme-1' }, true)
    expect(Object.isFrozen(caller)).toBe(true)
    expect(caller.policy).toBe('"minute";q=60;w=60, "day";q=1000;w=86400')
    expect(createCaller(client, { id: 'acme-1' }, false).policy).toBeUndefined()
  })
})
