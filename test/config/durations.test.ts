import { describe, expect, it } from 'vitest'
import { durations, sizes } from '../../src/config/scalars.ts'

describe('durations', () => {
  it.each([
    ['250ms', 250],
    ['15s', 15_000],
    ['2h', 7_200_000],
    ['7d', 604_800_000],
    ['0s', 0],
  ])('read %s as %d ms', (text, ms) => {
    expect(durations.parse(text)).toBe(ms)
  })

  it.each(
    ['', '15', 's', '-1s', '+1s', '1.5s', '1e3s', '01s', '1 s', ' 1s', '1s ', '1s\n', '1S', '1MS']
      .concat(['1min', '1w', '1m30s', 'PT1S', 'Infinitys', '1constructor', '9007199254740993ms'])
      .concat(['104249991375d', '１s', '1KiB']),
  )('refuse %j', (text) => {
    expect(durations.parse(text)).toBeUndefined()
  })
})

describe('sizes', () => {
  it.each([
    ['512B', 512],
    ['16KiB', 16_384],
    ['1GiB', 1_073_741_824],
  ])('read %s as %d bytes', (text, bytes) => {
    expect(sizes.parse(text)).toBe(bytes)
  })

  it.each(['', '512', 'B', '1KB', '1kib', '1 KiB', '1.5MiB', '-1B', '010B', '1TiB', '8388608GiB'])(
    'refuse %j',
    (text) => {
      expect(sizes.parse(text)).toBeUndefined()
    },
  )
})
