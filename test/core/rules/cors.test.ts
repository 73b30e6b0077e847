import { describe, expect, it } from 'vitest'
import { createCors } from '../../../src/core/rules/cors.ts'
import { fields } from '../../support/words.ts'

const app = 'https://app.example'
const exposed = `Access-Control-Expose-Headers: X-RateLimit-Limit, X-RateLimit-Remaining, \
X-RateLimit-Reset, RateLimit, RateLimit-Policy, Retry-After, X-Request-Id, Deprecation, Sunset, \
Link, X-API-Stability`
const standard = { headers: ['authorization', 'content-type'], maxAgeMs: 7_200_999 }
const credentials = true
const allowed = `Access-Control-Allow-Origin: ${app}`
const preflightVary = [
  'Vary',
  'Origin, Access-Control-Request-Method, Access-Control-Request-Headers',
]

describe('cors', () => {
  it.each<[string, { origins: string[]; credentials?: true }, string | undefined, string?]>([
    ['one of the origins', { origins: [app, 'https://b.example'] }, app, `${allowed} | ${exposed}`],
    [
      'one with credentials',
      { origins: [app], credentials },
      app,
      `${allowed} | Access-Control-Allow-Credentials: true | ${exposed}`,
    ],
    [
      'any, where all may',
      { origins: ['*'] },
      'https://who.example',
      `Access-Control-Allow-Origin: * | ${exposed}`,
    ],
    ['a foreign one', { origins: [app] }, 'https://app.example.evil'],
    ['another scheme', { origins: [app] }, 'http://app.example'],
    ['another case, which no browser sends', { origins: [app] }, 'https://App.example'],
    ['none that has a name', { origins: [app] }, 'null'],
    ['no origin', { origins: ['*'] }, undefined],
  ])('answers %s', (_, config, origin, told) => {
    const cors = createCors({ ...standard, credentials: false, ...config })
    const vary = fields('Vary: Origin')
    expect(cors.answerHeaders(origin)).toEqual([...(told ? fields(told) : []), ...vary])
  })

  it('tells an allowed origin what it may send, and a foreign one nothing', () => {
    const cors = createCors({ ...standard, credentials: false, origins: [app] })
    expect(cors.preflightHeaders(app, 'GET, POST')).toEqual([
      ...fields(`${allowed} | Access-Control-Allow-Methods: GET, POST
        | Access-Control-Allow-Headers: authorization, content-type | Access-Control-Max-Age: 7200`),
      ...preflightVary,
    ])
    expect(cors.preflightHeaders('https://b.example', 'GET')).toEqual(preflightVary)
  })

  it('leaves out what is empty, and names credentials where they are meant', () => {
    const cors = createCors({ origins: [app], headers: [], maxAgeMs: 0, credentials })
    expect(cors.preflightHeaders(app, '')).toEqual([
      ...fields(`${allowed} | Access-Control-Allow-Credentials: true | Access-Control-Max-Age: 0`),
      ...preflightVary,
    ])
  })
})
