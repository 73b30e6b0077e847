import { describe, expect, it } from 'vitest'
import { readToken } from '../../../src/core/rules/token-claims.ts'

const rules = {
  issuer: 'https://id.example/',
  audience: 'animal-store',
  algorithms: ['RS256'],
  jwksUri: undefined,
  jwksFile: undefined,
  clientClaim: 'sub',
  planClaim: 'plan',
}
const claims = { iss: rules.issuer, aud: rules.audience, exp: 100, sub: 'app-1', plan: 'pro' }
const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
const read = (header: unknown, body: unknown, nowMs = 99_999) =>
  readToken(`${encode(header)}.${encode(body)}.AAAA`, rules, nowMs)

describe('readToken', () => {
  it('reads what a token says', () => {
    const said = { kid: 'k', clientId: 'app-1', plan: 'pro', expiresAtMs: 100_000 }
    expect(read({ alg: 'RS256', kid: 'k' }, claims)).toEqual(said)
  })

  it('takes a plan that is not text for none, and leaves it to others whether one is needed', () => {
    expect(read({ alg: 'RS256' }, { ...claims, plan: ['pro'] })).toMatchObject({ plan: undefined })
  })

  it.each<[string, unknown, unknown, number?]>([
    ['an algorithm that is not configured', { alg: 'RS512' }, claims],
    ['no algorithm', {}, claims],
    ['a header that is null', null, claims],
    ['claims that are text', { alg: 'RS256' }, 'claims'],
    ['claims that expire now', { alg: 'RS256' }, claims, 100_000],
    ['a key id that is not text', { alg: 'RS256', kid: 7 }, claims],
    ['an unknown critical extension', { alg: 'RS256', crit: ['x'], x: 1 }, claims],
    ['an expiry beyond all numbers', { alg: 'RS256' }, { ...claims, exp: null }],
    ['an audience list without ours', { alg: 'RS256' }, { ...claims, aud: ['animal', 'store'] }],
    ['an empty list of critical extensions', { alg: 'RS256', crit: [] }, claims],
  ])('refuses %s', (_, header, body, nowMs) => {
    expect(read(header, body, nowMs)).toBeUndefined()
  })

  it.each<[string, object]>([
    ['an issuer less its last character', { iss: 'https://id.example' }],
    ['no issuer', { iss: undefined }],
    ['an issuer that is a list', { iss: [rules.issuer] }],
    ['no audience', { aud: undefined }],
    ['an expiry that is text', { exp: '100' }],
    ['a start in the next second', { nbf: 100 }],
    ['a start that is text', { nbf: '0' }],
    ['a client that is a number', { sub: 7 }],
    ['an empty client', { sub: '' }],
    ['a client with a line break', { sub: 'app\r\nX-Client-Plan: pro' }],
    ['a client that no path can end in', { sub: '..' }],
    ['a client that is not ASCII', { sub: '\u00e4pp' }],
    ['a client of 129 characters', { sub: 'a'.repeat(129) }],
  ])('refuses %s', (_, more) => {
    expect(read({ alg: 'RS256' }, { ...claims, ...more })).toBeUndefined()
  })

  it('refuses parts that are not JSON, not whole, or not in their one spelling', () => {
    const [header, body] = [encode({ alg: 'RS256' }), encode(claims)]
    expect(readToken(`${header}.${body}.AAAA`, rules, 0)).toBeDefined()
    const whole = `${header}.${body}`
    const broken = [`AAAA.${body}.AAAA`, `${header}.AAAA.AAAA`, `${whole}.AAAAA`, `${whole}.AB`]
    for (const token of [...broken, '']) expect(readToken(token, rules, 0)).toBeUndefined()
  })
})
