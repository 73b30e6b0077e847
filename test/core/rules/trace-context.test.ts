import { describe, expect, it } from 'vitest'
import { readTraceParent, readTraceState } from '../../../src/core/rules/trace-context.ts'
import { withTraceContext, writeTraceParent } from '../../../src/core/rules/trace-context.ts'
import { words } from '../../support/words.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const spanId = 'b7ad6b7169203331'
const plain = `00-${traceId}-${spanId}-01`

describe('traceparent', () => {
  it.each([
    [plain, 1],
    [`00-${traceId}-${spanId}-00`, 0],
    [`00-${traceId}-${spanId}-02`, 2],
    // Flags that nobody knows yet are left aside.
    [`00-${traceId}-${spanId}-fd`, 1],
    // Later versions begin as this one does.
    [`cc-${traceId}-${spanId}-01`, 1],
    [`cc-${traceId}-${spanId}-01-what-the-future-will-be`, 1],
  ])('is read from %s', (value, flags) => {
    expect(readTraceParent(value)).toEqual({ traceId, spanId, flags })
  })

  const ids = `${traceId}-${spanId}`
  const [noTrace, noSpan] = ['0'.repeat(32), '0'.repeat(16)]
  const malformed = words(`ff-${ids}-01 00-${ids}-01-more 00-${ids}-01- cc-${ids}-01.more
    00-${noTrace}-${spanId}-01 00-${traceId}-${noSpan}-01 00-${traceId.toUpperCase()}-${spanId}-01
    00-${ids.slice(1)}-01 00-${traceId}0-${spanId}-01 00-${ids.slice(0, -1)}-01 00-${ids}-1
    00-${ids}-0x 0-${ids}-01 00-${ids} 00_${traceId}_${spanId}_01`)
  it.each([...malformed, '', ` ${plain}`, `${plain}\n`, `${plain}, ${plain}`, 'x'.repeat(100_000)])(
    'is none in %j',
    (value) => {
      expect(readTraceParent(value)).toBeUndefined()
    },
  )

  it.each([plain, `00-${traceId}-${spanId}-02`])('is written as %s was', (value) => {
    const read = readTraceParent(value)
    expect(read && writeTraceParent(read)).toBe(value)
  })
})

describe('tracestate', () => {
  const many = (count: number) => Array.from({ length: count }, (_, at) => `k${at}=v`).join(',')
  it.each([
    ['rojo=00f067aa0ba902b7 , \tcongo=a b', 'rojo=00f067aa0ba902b7,congo=a b'],
    ['a=1,,b=2,', 'a=1,b=2'],
    ['0tenant@sys=x', '0tenant@sys=x'],
    ['a_-*/b=!~', 'a_-*/b=!~'],
    [`${'k'.repeat(256)}=${'v'.repeat(256)}`, `${'k'.repeat(256)}=${'v'.repeat(256)}`],
    [many(32), many(32)],
  ])('%j goes on as %j', (value, passed) => {
    expect(readTraceState(value)).toBe(passed)
  })

  it.each([
    ...words('novalue a= A=1 _a=1 a=1,a=2 a=b=c'),
    '',
    ' , ',
    'a= ',
    'a=1;b=2,b=\u00e9',
    ','.repeat(32),
    many(33),
    `${'k'.repeat(257)}=v`,
    `k=${'v'.repeat(257)}`,
  ])('%j is left out', (value) => {
    expect(readTraceState(value)).toBeUndefined()
  })

  it('is read in a time that grows with its length alone, whatever a stranger puts into it', () => {
    // Microseconds of processor: others on the machine do not count.
    const costOf = (length: number): number => {
      const value = `a${' '.repeat(length)}b`
      const before = process.cpuUsage()
      for (let time = 0; time < 20; time++) readTraceState(value)
      const { user, system } = process.cpuUsage(before)
      return user + system
    }
    costOf(1_000)
    // With the square of it, this would be a thousand times as much, and some minutes.
    expect(costOf(64_000)).toBeLessThan(1_000_000)
  })
})

describe('the fields of a request to a backend', () => {
  it('have ours in place of the client’s, in whatever spelling, and keep all others', () => {
    const fields = ['Host', 'a', 'TraceParent', 'x', 'tracestate', 'y', 'X-B', 'traceparent']
    const kept = ['Host', 'a', 'X-B', 'traceparent']
    const ours = ['traceparent', plain]
    const told = withTraceContext(fields, plain, 'k=v')
    expect(told).toEqual([...kept, 'tracestate', 'k=v', ...ours])
    expect(withTraceContext(fields, plain, undefined)).toEqual([...kept, ...ours])
  })
})
