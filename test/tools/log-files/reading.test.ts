/** Access logs read as a replay reads them: from files, in the order of decision. */
import { execFileSync, spawn } from 'node:child_process'
import { basename, dirname, join } from 'node:path'
import { gzipSync, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { temporaryFolder } from '../../support/processes.ts'
import { access, numbered, readLogs, write } from './logs.ts'

const folder = temporaryFolder()

const keysOf = (lines: readonly string[]) =>
  lines.map((line) => (JSON.parse(line) as { key: string }).key)
/** The same numbers each time. */
function shuffled(lines: readonly string[], reach: number): string[] {
  let seed = 1
  const random = () => (seed = (seed * 48_271) % 0x7fffffff) / 0x7fffffff
  return lines
    .map((line, at) => ({ line, at: at + random() * reach }))
    .sort((one, other) => one.at - other.at)
    .map(({ line }) => line)
}

describe('our own log', () => {
  it('tells requests from other lines and from what is none, and gives them in the order of decision', async () => {
    const file = write(
      [
        access(0, { backend: 'b' }),
        '{"level":"info","time":"2026-11-03T14:07:31.124Z","event":"draining"}\n',
        'torn\n',
        access(10, { agoMs: 15.5, refusal: 'rate_limit_exceeded', status: 429, dayLeft: 4 }),
        access(20, { key: 'schlüssel"', refusal: 'api_key_banned', status: 429 }),
        '[14:07:31.123] INFO: access key=acme-1\n',
        '{"time":"2026-11-03T14:07:31.124Z"}\n',
      ].join(''),
    )
    const { requests, reading } = await readLogs([file])
    expect(requests).toEqual([
      { at: '-5.5 ms', caller: 'acme-1', outcome: 'minute' },
      { at: '0 ms', caller: 'acme-1', outcome: 'admitted' },
      { at: '20 ms', caller: 'schlüssel"', outcome: 'ban' },
    ])
    const firstUnreadable = { file, line: 3, why: 'is neither JSON nor in the combined format' }
    expect(reading).toMatchObject({ lines: 7, otherLines: 1, unreadable: 3, firstUnreadable })
    expect(reading).toMatchObject({ cutOff: [], late: 0 })
  })
})

/** By this Node.js itself; 22 takes it for the end in most places. */
function isCutOffZstdTold(): boolean {
  try {
    zstdDecompressSync(zstdCompressSync('cut off').subarray(0, -4))
    return false
  } catch {
    return true
  }
}

describe('packed logs', () => {
  const lines = numbered(2_000, 1)
  const [first, second] = [lines.slice(0, 900).join(''), lines.slice(900).join('')]
  const packed: Record<string, (text: string) => Buffer> = {
    'no packing': (text) => Buffer.from(text),
    gzip: (text) => gzipSync(text),
    zstd: (text) => zstdCompressSync(text),
  }

  it.each(Object.entries(packed))(
    'are read from %s in two members, whatever the name',
    async (name, pack) => {
      const file = write(Buffer.concat([pack(first), pack(second)]))
      const { callers, reading } = await readLogs([file])
      // Before version 26, Node.js stops after the first frame of zstd.
      const isCut = name === 'zstd' && Number.parseInt(process.versions.node) < 26
      expect(callers).toEqual(keysOf(lines).slice(0, isCut ? 900 : undefined))
      expect(reading.cutOff).toEqual(isCut ? [file] : [])
      expect(reading.readBytes).toBe(reading.totalBytes)
    },
  )

  it.each(Object.entries(packed))(
    'give what there is of %s that is cut off, and are told',
    async (name, pack) => {
      const isTold = name !== 'zstd' || isCutOffZstdTold()
      const whole = Buffer.concat([pack(first), pack(second)])
      for (const bytes of [whole.length - 5, whole.length >> 1, pack(first).length + 9]) {
        const file = write(whole.subarray(0, bytes))
        const { callers, reading } = await readLogs([file])
        expect(callers).toEqual(keysOf(lines).slice(0, callers.length))
        expect(callers.length).toBeGreaterThan(0)
        if (isTold) expect(reading.cutOff).toEqual([file])
      }
    },
  )
})

describe('many logs', () => {
  it('are one log by time, though unsorted within the window', async () => {
    const lines = numbered(3_000, 60)
    const logs = Array.from({ length: 300 }, (): string[] => [])
    // Each is sorted but for a second or two, and overlaps with all others.
    for (const [at, line] of shuffled(lines, 33).entries()) logs[(at * 7) % 300]?.push(line)
    const files = logs.map((log) => write(log.join('')))
    const { callers, reading } = await readLogs(files, { windowMs: 5_000 })
    expect(callers).toEqual(keysOf(lines))
    expect(reading).toMatchObject({ late: 0, lines: 3_000 })
  })

  it('each keep the order of their lines where the time is the same', async () => {
    const logs = ['one', 'other'].map((name) =>
      Array.from({ length: 500 }, (_, at) => access(0, { key: `${name}-${at}` })),
    )
    const { callers } = await readLogs(logs.map((lines) => write(lines.join(''))))
    const of = (name: string) => callers.filter((caller) => caller?.startsWith(`${name}-`))
    expect([...of('one'), ...of('other')]).toEqual(keysOf(logs.flat()))
  })

  it('count what comes later than the window allows, and take it then', async () => {
    const lines = numbered(20_000, 10)
    const late = access(5, { key: 'late' })
    const file = write(lines.toSpliced(18_000, 0, late).join(''))
    const { callers, reading } = await readLogs([file], { windowMs: 1_000 })
    expect(reading.late).toBe(1)
    expect(callers.length).toBe(20_001)
    expect(callers.indexOf('late')).toBeGreaterThan(10_000)
    expect(callers.filter((caller) => caller !== 'late')).toEqual(keysOf(lines))
  })
})

describe('what is no log', () => {
  it.each([
    ['bytes', Buffer.from(Array.from({ length: 100_000 }, (_, at) => (at * 131) % 251))],
    ['nulls', Buffer.alloc(200_000)],
    ['one line of 100 MB, packed', gzipSync(Buffer.alloc(100_000_000, 'x'))],
    ['brackets', Buffer.from(' ['.repeat(30_000))],
  ])('is counted: %s', async (_, content) => {
    const file = write(Buffer.concat([content, Buffer.from('\n')]))
    const { requests, reading } = await readLogs([file])
    expect(requests).toEqual([])
    expect(reading.unreadable).toBeGreaterThan(0)
    expect(reading.unreadable + reading.otherLines).toBe(reading.lines)
  })

  it('does not hide the requests around it', async () => {
    const line = '{"event":"access","path":"'
    const file = write(`${access(0)}${line}${'x'.repeat(3_000_000)}"}\n${access(1)}`)
    const { requests, reading } = await readLogs([file])
    expect(requests.map(({ at }) => at)).toEqual(['0 ms', '1 ms'])
    expect(reading).toMatchObject({ lines: 3, unreadable: 1 })
    expect(reading.firstUnreadable?.why).toBe('is longer than 64 KiB')
  })

  it.each([
    ['a file that is not there', () => join(folder, 'none'), 'there is no such file'],
    ['a directory', () => folder, 'it is a directory'],
    ['xz', () => write(Buffer.from('fd377a585a000000', 'hex')), 'it is packed by xz'],
  ])('is refused with reason and remedy: %s', async (_, file, reason) => {
    const why = { reason: expect.stringContaining(reason) as string }
    const remedy = expect.stringMatching(/./) as string
    const fault = { code: 'unreadable', why: { ...why, remedy } }
    await expect(readLogs([write(access(0)), file()])).rejects.toMatchObject(fault)
  })

  it('tells of events beyond those that are kept', async () => {
    const event = JSON.stringify({ time: '2026-11-03T14:07:31Z', event: 'configTaken' })
    const { reading } = await readLogs([write(`${event}\n`.repeat(100_002))])
    expect(reading).toMatchObject({ notesDropped: 2, otherLines: 100_002 })
  })

  it('is a log that is named twice', async () => {
    const file = write(access(0))
    const again = readLogs([file, join(file, '..', '..', basename(dirname(file)), basename(file))])
    await expect(again).rejects.toMatchObject({ why: { reason: `it is the same as ${file}` } })
  })
})

describe('streams', () => {
  it('are read as they come, and beside files', async () => {
    const pipe = join(folder, 'pipe')
    execFileSync('mkfifo', [pipe])
    const lines = numbered(400, 10)
    const half = write(gzipSync(lines.filter((_, at) => at % 2 === 0).join('')))
    const other = write(lines.filter((_, at) => at % 2 === 1).join(''))
    const writer = spawn('sh', ['-c', `cat ${other} > ${pipe}`])
    const { callers, reading } = await readLogs([half, pipe])
    expect(callers).toEqual(keysOf(lines))
    expect(reading.totalBytes).toBeUndefined()
    expect(writer.exitCode ?? 0).toBe(0)
  })
})
