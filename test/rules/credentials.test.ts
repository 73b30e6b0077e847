import { describe, expect, it } from 'vitest'
import { isRefusal } from '../../src/rules/refusals.ts'
import { createCaller, isJwtForm, readBearer } from '../../src/rules/credentials.ts'

const outcome = (authorization?: string, count = authorization === undefined ? 0 : 1) => {
  const read = readBearer(authorization, count)
  return isRefusal(read) ? read.code : `token ${read.token}`
}

describe('readBearer', () => {
  it.each([
    ['Bearer abc', 'token abc'],
    ['bearer abc', 'token abc'],
    ['BEARER   abc', 'token abc'],
    ['Bearer aZ09-._~+/==', 'token aZ09-._~+/=='],
    [undefined, 'missing_api_key'],
    ['', 'missing_api_key'],
    ['   ', 'missing_api_key'],
    ['Bearer', 'invalid_api_key'],
    ['Bearer ', 'invalid_api_key'],
    ['Bearerabc', 'missing_api_key'],
    ['Bearer\tabc', 'invalid_api_key'],
    ['Bearer abc ', 'invalid_api_key'],
    ['Bearer abc\n', 'invalid_api_key'],
    ['Bearer a=b', 'invalid_api_key'],
    ['Bearer =', 'invalid_api_key'],
    ['Bearer abc, Bearer abc', 'invalid_api_key'],
    ['Bearer "abc"', 'invalid_api_key'],
    ['Bearer \u00e4bc', 'invalid_api_key'],
    ['Basic dXNlcjpwYXNz', 'invalid_api_key'],
    ['abc', 'missing_api_key'],
    ['a.b-c_d+e/f==', 'missing_api_key'],
    ['abc ', 'invalid_api_key'],
  ])('reads %j as %s', (header, expected) => {
    expect(outcome(header)).toBe(expected)
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
  it.each([
    ['a.b.c', true],
    ['aZ0-_.b.c', true],
    ['a.b', false],
    ['a.b.', false],
    ['.b.c', false],
    ['a.b.c.d', false],
    ['a.b.c=', false],
    ['a.b.c ', false],
    ['a.b.c\n', false],
    ['a.b.c+', false],
    ['a.b.c/', false],
    [`a.b.${'c'.repeat(8192)}`, false],
  ])('%j: %s', (token, expected) => {
    expect(isJwtForm(token)).toBe(expected)
  })
})

describe('createCaller', () => {
  it('freezes the caller and adds the policy of its limits', () => {
    const limits = { perMinute: 60, perDay: 1000 }
    const names = { clientId: 'acme', plan: 'free', keyId: 'acme-1' }
    const who = { ...names, limits, concurrent: 32, expiresAtMs: 1, keyDigest: undefined }
    const caller = createCaller(who, true)
    expect(Object.isFrozen(caller)).toBe(true)
    expect(caller.policy).toBe('"minute";q=60;w=60, "day";q=1000;w=86400')
    expect(createCaller(who, false).policy).toBeUndefined()
  })
})
