import { describe, expect, it } from 'vitest'
import { createRequestId } from '../../../src/core/rules/request-id.ts'

const BOOT_MS = 1_790_000_000_000
const seed = [BOOT_MS, Uint8Array.of(0, 1, 2, 0xfe, 4, 5, 6, 7)] as const

describe('request id', () => {
  it('is new, unique and plain for every request', () => {
    const requestId = createRequestId(...seed)
    const ids = Array.from({ length: 1000 }, () => requestId(undefined))
    expect(ids[0]).toBe(`${BOOT_MS.toString(36)}-000102fe04050607-1`)
    expect(new Set(ids).size).toBe(1000)
    expect(ids[0]?.split('-')[1]).toBe(requestId.process)
    expect(ids.map(requestId)).toEqual(ids)
  })

  it('differs between processes that start at the same time', () => {
    const other = createRequestId(BOOT_MS, Uint8Array.of(0, 1, 2, 0xfe, 4, 5, 6, 8))
    expect(other(undefined)).not.toBe(createRequestId(...seed)(undefined))
  })

  it.each(['a', 'A-b_c.9', 'x'.repeat(128), '4bf92f35-77b3-4da6-a3ce-929d0e0e4736'])(
    'keeps the inbound id %s',
    (id) => {
      expect(createRequestId(...seed)(id)).toBe(id)
    },
  )

  it.each(['', 'a b', 'a\n', 'a\r\nX: y', 'é', '${x}', '<b>', 'a/b', 'x'.repeat(129)])(
    'replaces the inbound id %j',
    (id) => {
      expect(createRequestId(...seed)(id)).toMatch(/-1$/)
    },
  )
})
