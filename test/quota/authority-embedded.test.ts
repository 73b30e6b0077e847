import { copyFileSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { openSqliteFile } from '../../src/sqlite/file.ts'
import { openEmbeddedAuthority } from '../../src/quota/authorities/embedded.ts'
import { createMemoryAuthority, type MemoryAuthority } from '../../src/quota/authorities/memory.ts'
import type { KeptCounters } from '../../src/quota/journal/kept-counters.ts'
import type { Hold, TakeReply, TakeRequest } from '../../src/quota/protocol.ts'
import { UnsavedClients } from '../../src/quota/journal/unsaved-clients.ts'
import { authorityContract } from '../contract/authority.ts'
import { START_MS, until } from '../support/controlled-authority.ts'

const MINUTE = Math.floor(START_MS / 60_000)
const DAY = Math.floor(START_MS / 86_400_000)
const none: Hold = { index: -1, used: 0, held: 0 }
const limits = { perMinute: 10, perDay: 100 }

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'tollgate-counts-'))
})
afterAll(() => rmSync(directory, { recursive: true }))

let boots = 0
const call = (client: string, change: Partial<TakeRequest> = {}): TakeRequest => {
  const need = change.need ?? 1
  return {
    client,
    process: `boot-${boots}`,
    sequence: 1,
    limits,
    minute: none,
    day: none,
    need,
    want: need,
    ...change,
  }
}
const unexpected = (reported: unknown): void => {
  throw new Error(`unexpected: ${String(reported)}`)
}

authorityContract('a file', async () => {
  const opened: MemoryAuthority[] = []
  return {
    create: (time) => {
      const file = join(directory, 'contract.db')
      const authority = openEmbeddedAuthority({
        file,
        clock: { epochMs: () => time.ms },
        onDamaged: unexpected,
        onFault: unexpected,
      })
      opened.push(authority)
      return authority
    },
    stop: async () => void (await Promise.all(opened.map((authority) => authority.close()))),
  }
})

describe('the counters of the embedded authority', () => {
  let clock: { ms: number }
  let beginRound: () => void
  let file: string
  const open: MemoryAuthority[] = []
  const start = (
    at = file,
    options: Partial<Parameters<typeof openEmbeddedAuthority>[0]> = {},
  ): MemoryAuthority => {
    boots++
    const timers = {
      every: (_: number, task: () => void) => {
        beginRound = task
        return () => undefined
      },
    }
    const authority = openEmbeddedAuthority({
      file: at,
      clock: { epochMs: () => clock.ms },
      timers,
      onDamaged: unexpected,
      onFault: unexpected,
      ...options,
    })
    open.push(authority)
    return authority
  }
  /** What is in the file at this moment, as a start after a crash would find it. */
  const crashed = (): string => {
    const left = join(directory, `left-${++boots}.db`)
    for (const part of ['', '-wal']) copyFileSync(file + part, left + part)
    return left
  }
  const rows = async (): Promise<readonly Readonly<Record<string, unknown>>[]> => {
    const store = openSqliteFile(file, unexpected)
    const found = await store.read('SELECT * FROM quota ORDER BY client')
    await store.close()
    return found
  }
  /** Lets rounds of writing begin until this is in the file. */
  const saved = (client: string, minuteTaken: number): Promise<void> =>
    until(async () => {
      beginRound()
      return (await rows()).some(
        (row) => row['client'] === client && row['minute_taken'] === minuteTaken,
      )
    })

  beforeEach(() => {
    clock = { ms: START_MS }
    file = join(directory, `counts-${++boots}.db`)
  })
  afterEach(async () => {
    await Promise.all(open.splice(0).map((authority) => authority.close()))
  })

  it('are there after a clean stop, to the last one', async () => {
    const before = start()
    before.take(call('acme', { need: 7 }))
    await before.close()
    const after = start()
    expect(after.size).toBe(1)
    expect(after.take(call('acme', { need: 5 }))).toMatchObject({
      status: 'short',
      minute: { index: MINUTE, held: 3, taken: 10, used: 10 },
      day: { index: DAY, held: 3, taken: 10, used: 10 },
    })
  })

  it('are at most a second behind after a crash', async () => {
    const before = start()
    before.take(call('acme', { need: 4 }))
    await saved('acme', 4)
    before.take(call('acme', { need: 2, sequence: 2, minute: hold(4), day: dayHold(4) }))
    const after = start(crashed())
    expect(after.take(call('acme', { need: 0 }))).toMatchObject({ minute: { taken: 4, used: 4 } })
  })

  it('count what the processes of an earlier boot held as spent, whether they spent it or not', async () => {
    const before = start()
    before.take(call('acme', { need: 1 }))
    clock.ms += 1000
    before.take(call('acme', { process: 'other', need: 1, want: 4 }))
    await before.close()
    const after = start()
    const reply = after.take(call('acme', { need: 9, want: 9 }))
    expect(reply).toMatchObject({
      status: 'short',
      minute: { taken: 10, used: 10 },
    })
    expect(reply.minute.held).toBeLessThan(6)
  })

  it('are known ones: nothing is lost, nobody is asked, and leases go on at once', async () => {
    const before = start()
    before.take(call('acme'))
    await before.close()
    const after = start()
    const stated = { minute: hold(1), day: dayHold(1) }
    const reply = after.take(call('acme', { ...stated, want: 5 }))
    expect(reply).toMatchObject({ status: 'granted', notice: undefined })
    expect(reply.minute.held).toBeGreaterThan(2)
  })

  it('forget the minute when it has ended meanwhile, and keep the day', async () => {
    const before = start()
    before.take(call('acme', { need: 7 }))
    await before.close()
    clock.ms += 60_000
    expect(start().take(call('acme', { need: 10 }))).toMatchObject({
      status: 'granted',
      minute: { index: MINUTE + 1, taken: 10 },
      day: { index: DAY, taken: 17 },
    })
  })

  it('open no ended window again, though the clock went back by a small skew over the restart', async () => {
    const before = start()
    before.take(call('acme', { need: 3 }))
    clock.ms += 60_000
    before.take(call('acme', { need: 10, sequence: 2 }))
    await before.close()
    clock.ms = START_MS
    expect(start().take(call('acme'))).toMatchObject({
      status: 'short',
      minute: { index: MINUTE + 1, taken: 10 },
    })
  })

  it('of ended days leave the file, an hour after, in a running process and at a start', async () => {
    const before = start()
    before.take(call('early'))
    await saved('early', 1)
    clock.ms = (DAY + 1) * 86_400_000
    before.take(call('late'))
    await saved('late', 1)
    expect((await rows()).map(({ client }) => client)).toEqual(['early', 'late'])
    clock.ms += 3_600_000
    await until(async () => {
      beginRound()
      return (await rows()).length === 1
    })
    expect(await rows()).toMatchObject([{ client: 'late', day_index: DAY + 1 }])
    await before.close()
    clock.ms += 86_400_000
    const after = start()
    expect(after.size).toBe(0)
    await after.close()
    expect(await rows()).toEqual([])
  })

  it('leave the file with a client that was dropped to make room, unless it came back', async () => {
    const before = start(file, { maxClients: 50 })
    for (let n = 0; n < 200; n++) before.take(call(`client-${n}`))
    await saved('client-199', 1)
    for (let n = 200; n < 400; n++) before.take(call(`client-${n}`))
    before.take(call('client-0'))
    await before.close()
    const kept = (await rows()).map(({ client }) => client)
    expect(kept.length).toBeLessThanOrEqual(51)
    expect(kept).toContain('client-0')
    expect(kept).not.toContain('client-1')
    expect(start(file, { maxClients: 50 }).size).toBe(kept.length)
  })

  it('stay in memory while the disk is full, which is reported once, and are kept when there is room again', async () => {
    const onFault = vi.fn<(error: unknown) => void>()
    const onRecovered = vi.fn<() => void>()
    const before = start(file, { onFault, onRecovered })
    const disk = openSqliteFile(file, unexpected)
    await disk.read('PRAGMA max_page_count = 1')
    for (let n = 0; n < 3_000; n++) before.take(call(`client-${n}`))
    await until(() => {
      beginRound()
      return onFault.mock.calls.length > 0
    })
    expect(onFault.mock.calls[0]?.[0]).toEqual(
      new Error(`store.file ${file} cannot be written, as the disk is full; make room`),
    )
    for (let tries = 0; tries < 5; tries++) {
      beginRound()
      // Answered after what the round has asked for.
      await rows()
    }
    before.take(call('client-7', { sequence: 2, need: 3, minute: hold(1), day: dayHold(1) }))
    expect(onFault).toHaveBeenCalledOnce()
    expect(onRecovered).not.toHaveBeenCalled()
    await disk.read('PRAGMA max_page_count = 100000')
    await saved('client-2999', 1)
    await saved('client-7', 4)
    expect(onRecovered).toHaveBeenCalledOnce()
    expect(await rows()).toHaveLength(3_000)
    await disk.close()
  })

  it('of 100,000 clients are restored, each with its own count', async () => {
    const before = start(file)
    const count = (n: number): number => 1 + (n % 9)
    for (let n = 0; n < 100_000; n++) before.take(call(`client-${n}`, { need: count(n) }))
    await before.close()
    // The file is no larger for being written again and again.
    const bytes = statSync(file).size
    const after = start(file)
    expect(after.size).toBe(100_000)
    for (let n = 0; n < 100_000; n++) {
      const { minute } = after.take(call(`client-${n}`, { need: 0 }))
      if (minute.taken !== count(n)) expect([n, minute.taken]).toEqual([n, count(n)])
    }
    await after.close()
    expect(statSync(file).size).toBeLessThan(bytes * 1.5)
  }, 60_000)

  it('begin anew when the file is damaged, which is reported', async () => {
    const before = start()
    before.take(call('acme', { need: 9 }))
    await before.close()
    truncateSync(file, 4_096)
    const onDamaged = vi.fn<(keptAs: string) => void>()
    expect(start(file, { onDamaged }).take(call('acme'))).toMatchObject({ minute: { taken: 1 } })
    expect(onDamaged).toHaveBeenCalledOnce()
  })

  it('are in memory alone without a file', async () => {
    const files = readdirSync(directory).length
    const before = start(undefined, { file: undefined })
    expect(before.take(call('acme'))).toMatchObject({ status: 'granted', minute: { taken: 1 } })
    await before.close()
    expect(readdirSync(directory)).toHaveLength(files)
  })
})

const hold = (used: number): Hold => ({ index: MINUTE, used, held: used })
const dayHold = (used: number): Hold => ({ index: DAY, used, held: used })

describe('a restart at any moment', () => {
  const step = fc.record({
    player: fc.integer({ min: 0, max: 2 }),
    passedMs: fc.oneof(
      { weight: 6, arbitrary: fc.integer({ min: 0, max: 20_000 }) },
      { weight: 1, arbitrary: fc.integer({ min: -90_000, max: 0 }) },
      { weight: 1, arbitrary: fc.constantFrom(86_400_000, 4 * 3_600_000) },
    ),
    need: fc.integer({ min: 0, max: 5 }),
    ahead: fc.integer({ min: 0, max: 8 }),
    spends: fc.integer({ min: 0, max: 8 }),
    returns: fc.boolean(),
    restarts: fc.boolean(),
  })
  const anyLimits = fc.constantFrom(
    { perMinute: 1, perDay: 1 },
    { perMinute: 7, perDay: 11 },
    { perMinute: 20, perDay: 1000 },
  )

  /** A gateway process: what it holds, and has spent of it. */
  interface Player {
    readonly id: string
    sequence: number
    minute: Hold
    day: Hold
  }

  it('never admits more than the limit, in any window', () => {
    fc.assert(
      fc.property(anyLimits, fc.array(step, { minLength: 1, maxLength: 60 }), (own, steps) => {
        const time = { ms: START_MS }
        const clock = { epochMs: () => time.ms }
        const kept = new Map<string, KeptCounters>()
        let unsaved = new UnsavedClients()
        let authority = createMemoryAuthority({ clock, unsaved })
        let boot = 0
        const newPlayers = (): Player[] =>
          [0, 1, 2].map((n) => ({ id: `${boot}-${n}`, sequence: 0, minute: none, day: none }))
        let players = newPlayers()
        const admitted = new Map<string, number>()
        let newestMinute = 0
        let newestMs = 0
        const admit = (player: Player, count: number): void => {
          for (const [kind, limit] of [
            ['minute', own.perMinute],
            ['day', own.perDay],
          ] as const) {
            const { index, used, held } = player[kind]
            player[kind] = { index, used: used + count, held }
            const window = `${kind} ${index}`
            const total = (admitted.get(window) ?? 0) + count
            admitted.set(window, total)
            expect(total).toBeLessThanOrEqual(limit)
          }
        }
        for (const move of steps) {
          // A clock that goes back by more is taken anew.
          time.ms = Math.max(time.ms + move.passedMs, newestMs - 60_000)
          newestMs = Math.max(newestMs, time.ms)
          newestMinute = Math.max(newestMinute, Math.floor(time.ms / 60_000))
          if (move.restarts) {
            // What close() does: everything unsaved is saved, and only that.
            for (const { id: client, state } of unsaved.next(1000)) {
              const { minuteIndex, minuteTaken, dayIndex, dayTaken } = state
              kept.set(client, { client, minuteIndex, minuteTaken, dayIndex, dayTaken })
            }
            unsaved = new UnsavedClients()
            authority = createMemoryAuthority({ clock, unsaved, restored: kept.values() })
            boot++
            players = newPlayers()
          }
          const player = players[move.player]
          if (player === undefined) throw new Error('no such player')
          // A hold is spent within its window only.
          const free = (window: Hold): number => window.held - window.used
          const isRunning = player.minute.index === newestMinute
          if (isRunning) admit(player, Math.min(move.spends, free(player.minute), free(player.day)))
          const stated = (window: Hold): Hold =>
            move.returns ? { ...window, held: window.used } : window
          const request = {
            client: 'acme',
            process: player.id,
            sequence: ++player.sequence,
            limits: own,
            minute: stated(player.minute),
            day: stated(player.day),
            need: move.need,
            want: move.need + move.ahead,
          }
          believe(player, authority.take(request))
          admit(player, Math.min(move.need, free(player.minute), free(player.day)))
        }
      }),
      { numRuns: 500 },
    )
  })

  function believe(player: Player, reply: TakeReply): void {
    for (const kind of ['minute', 'day'] as const) {
      const { index, held } = reply[kind]
      player[kind] = { index, held, used: player[kind].index === index ? player[kind].used : 0 }
    }
  }
})
