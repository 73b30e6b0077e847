/** How much a client of HTTP/2 may send. */
import { expect, test } from 'vitest'
import { allowedBytes } from '../../../src/core/rules/http2-abuse.ts'

const HEAD_BYTES = 24_576
const none = { ageMs: 0, streams: 0, bodies: 0, bodyBytes: 0, writtenBytes: 0 }

test.each([
  ['a new connection', {}, 65_536],
  ['one of ten seconds', { ageMs: 10_000 }, 65_536 + 163_840],
  ['the heads of its requests', { streams: 3 }, 65_536 + 3 * HEAD_BYTES],
  ['a body that is not read', { streams: 1, bodies: 1 }, 65_536 + HEAD_BYTES + 65_535],
  ['a body in frames of few bytes', { bodyBytes: 1_000_000 }, 65_536 + 2_000_000],
  ['what acknowledges an answer', { writtenBytes: 16_000_000 }, 65_536 + 1_000_000],
])('%s may be so many bytes', (_, use, bytes) => {
  expect(allowedBytes({ ...none, ...use }, HEAD_BYTES)).toBe(bytes)
})
