import { describe, expect, it } from 'vitest'
import { createCors } from '../../src/rules/cors.ts'

const app = 'https://app.example'
const exposed =
  'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id, Deprecation, Sunset, Link, X-API-Stability'
const standard = {
  headers: ['authorization', 'content-type'],
  maxAgeMs: 7_200_999,
  credentials: false,
}
const vary = ['Vary', 'Origin']
const preflightVary = [
  'Vary',
  'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
]

describe('cors', () => {
  it.each([
    [
      'one of the origins',
      { origins: [app, 'https://b.example'] },
      app,
      ['Access-Control-Allow-Origin', app, 'Access-Control-Expose-Headers', exposed],
    ],
    [
      'one with credentials',
      { origins: [app], credentials: true },
      app,
      [
        'Access-Control-Allow-Origin',
        app,
        'Access-Control-Allow-Credentials',
        'true',
        'Access-Control-Expose-Headers',
        exposed,
      ],
    ],
    [
      'any, where all may',
      { origins: ['*'] },
      'https://who.example',
      ['Access-Control-Allow-Origin', '*', 'Access-Control-Expose-Headers', exposed],
    ],
    ['a foreign one', { origins: [app] }, 'https://app.example.evil', []],
    ['another scheme', { origins: [app] }, 'http://app.example', []],
    ['another case, which no browser sends', { origins: [app] }, 'https://App.example', []],
    ['none that has a name', { origins: [app] }, 'null', []],
    ['two at once', { origins: [app] }, `${app}, ${app}`, []],
    ['no origin', { origins: ['*'] }, undefined, []],
  ])('answers %s', (_, config, origin, fields) => {
    expect(createCors({ ...standard, ...config }).answerHeaders(origin)).toEqual([
      ...fields,
      ...vary,
    ])
  })

  it('tells an allowed origin what it may send, and a foreign one nothing', () => {
    const cors = createCors({ ...standard, origins: [app] })
    expect(cors.preflightHeaders(app, 'GET, POST')).toEqual([
      'Access-Control-Allow-Origin',
      app,
      'Access-Control-Allow-Methods',
      'GET, POST',
      'Access-Control-Allow-Headers',
      'authorization, content-type',
      'Access-Control-Max-Age',
      '7200',
      ...preflightVary,
    ])
    expect(cors.preflightHeaders('https://b.example', 'GET')).toEqual(preflightVary)
  })

  it('leaves out what is empty, and names credentials where they are meant', () => {
    const cors = createCors({ origins: [app], headers: [], maxAgeMs: 0, credentials: true })
    expect(cors.preflightHeaders(app, '')).toEqual([
      'Access-Control-Allow-Origin',
      app,
      'Access-Control-Allow-Credentials',
      'true',
      'Access-Control-Max-Age',
      '0',
      ...preflightVary,
    ])
  })
})
