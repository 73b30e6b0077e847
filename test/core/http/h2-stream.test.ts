/** What becomes of the fields of a request of HTTP/2. */
import { expect, test } from 'vitest'
import { http1Fields } from '../../../src/core/http/h2-stream.ts'

const PSEUDO = ':method GET :scheme https :path /v1/pets :authority a.b'
const words = (text: string): string[] => text.split(' ')

test.each([
  ['fields stay in their order', 'x-b 1 x-a 2 x-b 3', 'host a.b x-b 1 x-a 2 x-b 3'],
  ['Host as :authority is said once', 'host a.b x-a 1', 'host a.b x-a 1'],
  ['another Host is one too many', 'host c.d', 'host a.b host c.d'],
])('%s', (_, fields, expected) => {
  const read = http1Fields(words(`${PSEUDO} ${fields}`))
  expect(read.fields).toEqual(words(expected))
  expect(read).toMatchObject({ method: 'GET', scheme: 'https', path: '/v1/pets', authority: 'a.b' })
})

test('cookies are one field, in the place of the first', () => {
  const { fields } = http1Fields(['cookie', 'a=1', 'x-a', '1', 'cookie', 'b=2', 'cookie', 'c=3'])
  expect(fields).toEqual(['cookie', 'a=1; b=2; c=3', 'x-a', '1'])
})

test('Host alone is Host', () => {
  expect(http1Fields(['host', 'a.b'])).toMatchObject({
    authority: undefined,
    fields: ['host', 'a.b'],
  })
})
