import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { closeFrame, FrameTracker } from '../../../src/core/http/websocket-frames.ts'

interface Frame {
  readonly opcode: number
  readonly isFinal: boolean
  readonly isMasked: boolean
  readonly payload: Uint8Array
}

/** As RFC 6455 5.2 draws it. */
function encode({ opcode, isFinal, isMasked, payload }: Frame): Buffer {
  const { length } = payload
  const extended = Buffer.alloc(length < 126 ? 0 : length < 65_536 ? 2 : 8)
  if (extended.length === 2) extended.writeUInt16BE(length)
  if (extended.length === 8) extended.writeBigUInt64BE(BigInt(length))
  const short = length < 126 ? length : length < 65_536 ? 126 : 127
  const head = [(isFinal ? 0x80 : 0) | opcode, (isMasked ? 0x80 : 0) | short]
  const mask = isMasked ? [0x88, 0, 0x88, 0xff] : []
  return Buffer.concat([Buffer.from(head), extended, Buffer.from(mask), payload])
}

const frame = (length: number, opcode = 2, isMasked = false): Buffer =>
  encode({ opcode, isFinal: true, isMasked, payload: new Uint8Array(length).fill(0x88) })

describe('the tracker of frames', () => {
  it.each([0, 1, 125, 126, 127, 65_535, 65_536, 70_000])(
    'knows where a frame of %i bytes ends, masked or not',
    (length) => {
      for (const isMasked of [false, true]) {
        const bytes = frame(length, 2, isMasked)
        const tracker = new FrameTracker()
        expect(tracker.isAtBoundary).toBe(true)
        tracker.advance(bytes.subarray(0, -1))
        expect(tracker.isAtBoundary).toBe(false)
        // The last byte of this one, and two bytes of the next.
        expect(tracker.readFrame(Buffer.concat([bytes.subarray(-1), bytes.subarray(0, 2)]))).toBe(1)
        expect(tracker.isAtBoundary).toBe(true)
        expect(tracker.isClosed).toBe(false)
      }
    },
  )

  it('hears of a close frame when all of it has passed', () => {
    const bytes = closeFrame(1000, 'bye', Buffer.from([1, 2, 3, 4]))
    const tracker = new FrameTracker()
    tracker.advance(Buffer.concat([frame(5), bytes.subarray(0, -1)]))
    expect(tracker.isClosed).toBe(false)
    tracker.advance(bytes.subarray(-1))
    expect(tracker).toMatchObject({ isClosed: true, isAtBoundary: true })
  })

  it('takes a frame of 2^63 bytes for one that does not end', () => {
    const tracker = new FrameTracker()
    tracker.advance(Buffer.from([0x82, 127, 0x7f, ...Array.from({ length: 7 }, () => 0xff)]))
    tracker.advance(Buffer.alloc(100_000))
    expect(tracker.isAtBoundary).toBe(false)
  })

  it('finds the same ends however the bytes are split', () => {
    const frames = fc.array(
      fc.record({
        opcode: fc.constantFrom(0, 1, 2, 9, 10),
        isFinal: fc.boolean(),
        isMasked: fc.boolean(),
        payload: fc.uint8Array({ maxLength: 300 }),
      }),
      { minLength: 1, maxLength: 8 },
    )
    const steps = fc.array(fc.integer({ min: 1, max: 200 }), { minLength: 1, maxLength: 50 })
    fc.assert(
      fc.property(frames, steps, (list, sizes) => {
        const encoded = list.map(encode)
        const ends = encoded.reduce<number[]>(
          (all, { length }) => [...all, (all.at(-1) ?? 0) + length],
          [],
        )
        const bytes = Buffer.concat(encoded)
        const tracker = new FrameTracker()
        const found: number[] = []
        for (let at = 0, turn = 0; at < bytes.length; turn++) {
          const chunk = bytes.subarray(at, at + (sizes[turn % sizes.length] ?? 1))
          for (let within = 0; within < chunk.length;) {
            within = tracker.readFrame(chunk, within)
            if (tracker.isAtBoundary) found.push(at + within)
          }
          at += chunk.length
        }
        expect(found).toEqual(ends)
        expect(tracker.isClosed).toBe(false)
      }),
    )
  })
})

describe('a close frame', () => {
  it('is bare to a client and masked to a backend', () => {
    expect(closeFrame(1001, 'idle')).toEqual(Buffer.from('\x88\x06\x03\xe9idle', 'latin1'))
    const mask = Buffer.from([0x20, 0, 0x20, 0xff])
    const masked = closeFrame(1001, 'idle', mask)
    expect(masked.subarray(0, 6)).toEqual(Buffer.from([0x88, 0x86, ...mask]))
    const payload = masked.subarray(6).map((byte, at) => byte ^ (mask[at % 4] ?? 0))
    expect(Buffer.from(payload)).toEqual(Buffer.from('\x03\xe9idle', 'latin1'))
  })
})
