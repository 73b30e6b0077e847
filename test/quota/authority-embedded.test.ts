import { copyFileSync, mkdtempSync, readdirSync, rmSync, statSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { openSqliteFile, type OnFileEvent } from '../../src/sqlite/file.ts'
import { openEmbeddedAuthority } from '../../src/quota/authorities/embedded.ts'
import {
  createEmbeddedAuthority,
  type EmbeddedAuthority,
} from '../../src/quota/authorities/memory.ts'
import { Journal } from '../../src/sqlite/quota-journal.ts'
import type { Row } from '../../src/sqlite/quota-rows.ts'
import type { Statement, TakeReply, TakeRequest } from '../../src/quota/protocol.ts'
import { createEmbeddedCounters } from '../../src/usage/counters-embedded.ts'
import { authorityContract } from '../contract/authority.ts'
import { foundAfterACrash } from '../simulation/disk.ts'
import { START_MS, until } from '../support/controlled-authority.ts'
import { callOf, NOTHING } from './lessee-harness.ts'

const MINUTE = Math.floor(START_MS / 60_000)
const DAY = Math.floor(START_MS / 86_400_000)
const limits = { perMinute: 10, perDay: 100 }
const hold = (used: number): Statement => ({ index: MINUTE, used, held: used })
const dayHold = (used: number): Statement => ({ index: DAY, used, held: used })
const above = (least: number): unknown => expect.toSatisfy((number: number) => number > least)
const below = (most: number): unknown => expect.toSatisfy((number: number) => number < most)

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'tollgate-counts-'))
})
afterAll(() => rmSync(directory, { recursive: true }))

let boots = 0
const call = (client: string, change: Partial<TakeRequest> = {}): TakeRequest =>
  callOf({ client, process: `boot-${boots}`, limits, need: 1, ...change })
const unexpected = (reported: unknown): void => {
  throw new Error(`unexpected: ${String(reported)}`)
}

authorityContract('a file', async () => {
  const opened: EmbeddedAuthority[] = []
  return {
    create: (time) => {
      const file = join(directory, 'contract.db')
      const authority = openEmbeddedAuthority({
        file,
        timeoutMs: 100,
        clock: { epochMs: () => time.ms },
        onFileEvent: unexpected,
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
  const open: EmbeddedAuthority[] = []
  const start = (
    at = file,
    options: Partial<Parameters<typeof openEmbeddedAuthority>[0]> = {},
  ): EmbeddedAuthority => {
    boots++
    const timers = {
      every: (_: number, task: () => void) => ((beginRound = task), () => undefined),
    }
    const authority = openEmbeddedAuthority({
      timeoutMs: 100,
      file: at,
      clock: { epochMs: () => clock.ms },
      timers,
      onFileEvent: unexpected,
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
  let reader: ReturnType<typeof openSqliteFile> | undefined
  const rows = () =>
    (reader ??= openSqliteFile(file, unexpected)).read('SELECT * FROM quota ORDER BY client')
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
    await reader?.close()
    reader = undefined
    await Promise.all(open.splice(0).map((authority) => authority.close()))
  })

  it.each<{
    title: string
    before(take: (change?: Partial<TakeRequest>) => void): void
    ask: Partial<TakeRequest>
    reply: object
  }>([
    {
      title: 'are there, to the last one',
      before: (take) => take({ need: 7 }),
      ask: { need: 5 },
      reply: {
        status: 'short',
        minute: { index: MINUTE, held: 3, taken: 10, used: 10 },
        day: { index: DAY, held: 3, taken: 10, used: 10 },
      },
    },
    {
      title: 'count what processes held as spent, whether they spent it or not',
      before: (take) => {
        take()
        clock.ms += 1000
        take({ process: 'other', want: 4 })
      },
      ask: { need: 9 },
      reply: { status: 'short', minute: { taken: 10, used: 10, held: below(6) } },
    },
    {
      title: 'are known ones: nothing is lost, nobody is asked, and leases go on at once',
      before: (take) => take(),
      ask: { minute: hold(1), day: dayHold(1), want: 5 },
      reply: { status: 'granted', notice: undefined, minute: { held: above(2) } },
    },
    {
      title: 'forget the minute when it has ended meanwhile, and keep the day',
      before: (take) => {
        take({ need: 7 })
        clock.ms += 60_000
      },
      ask: { need: 10 },
      reply: {
        status: 'granted',
        minute: { index: MINUTE + 1, taken: 10 },
        day: { index: DAY, taken: 17 },
      },
    },
    {
      title: 'open no ended window again, though the clock went back by a small skew',
      before: (take) => {
        take({ need: 3 })
        clock.ms += 60_000
        take({ need: 10, sequence: 2 })
        clock.ms = START_MS
      },
      ask: {},
      reply: { status: 'short', minute: { index: MINUTE + 1, taken: 10 } },
    },
  ])('$title, after a clean stop', async ({ before, ask, reply }) => {
    const stopped = start()
    before((change) => void stopped.take(call('acme', change)))
    await stopped.close()
    const after = start()
    expect(after.size).toBe(1)
    expect(await after.take(call('acme', ask))).toMatchObject(reply)
  })

  it('say after a crash at least what was admitted, and at most a sixteenth of a minute more', async () => {
    const own = { perMinute: 320, perDay: 1000 }
    const before = start()
    const take = (need: number, sequence: number, used: number) =>
      before.take(
        call('acme', { limits: own, need, sequence, minute: hold(used), day: dayHold(used) }),
      )
    // Nothing says yet that it is known.
    const first = take(1, 1, 0)
    expect(first).toBeInstanceOf(Promise)
    await first
    await take(0, 2, 1)
    // What the row is ahead of the counts is spent without waiting.
    for (let used = 1; used < 9; used++) expect(take(1, used + 2, used)).not.toBeInstanceOf(Promise)
    // More than that waits for a row of its own.
    const burst = take(60, 20, 9)
    expect(burst).toBeInstanceOf(Promise)
    await burst
    expect(await start(crashed()).take(call('acme', { need: 0 }))).toMatchObject({
      minute: { taken: 69 + 20, used: 69 + 20 },
      day: { taken: 69 + 20 },
    })
    clock.ms += 60_000
    const later = start(crashed())
    // The crash may have been in the minute that runs now.
    expect(await later.take(call('acme', { need: 0 }))).toMatchObject({
      minute: { index: MINUTE + 1, taken: 20 },
      day: { taken: 69 + 20 },
    })
  })

  it('of ended days leave the file, an hour after, in a running process and at a start', async () => {
    const before = start()
    void before.take(call('early'))
    await saved('early', 1)
    clock.ms = (DAY + 1) * 86_400_000
    void before.take(call('late'))
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

  it('of more clients than fit in memory are read back from the file when they come again', async () => {
    const before = start(file, { maxClients: 50 })
    const names = Array.from({ length: 400 }, (_, n) => `client-${n}`)
    for (const [n, name] of names.entries()) await before.take(call(name, { need: 1 + (n % 9) }))
    await saved('client-399', 1 + (399 % 9))
    expect(before.size).toBeLessThanOrEqual(60)
    expect(await rows()).toHaveLength(400)
    const taken = async (authority: EmbeddedAuthority): Promise<number[]> => {
      const counts: number[] = []
      for (const name of names)
        counts.push((await authority.take(call(name, { need: 0 }))).day.taken)
      return counts
    }
    const expected = names.map((_, n) => 1 + (n % 9))
    expect(await taken(before)).toEqual(expected)
    // Several for one client at once, while it is read.
    const more = ['b', 'c'].map(
      async (process) => (await before.take(call('client-0', { process, need: 6 }))).status,
    )
    expect(await Promise.all(more)).toEqual(['granted', 'short'])
    await before.close()
    const after = start(file, { maxClients: 50 })
    expect(after.size).toBe(50)
    expect(await taken(after)).toEqual([10, ...expected.slice(1)])
  })

  it('that cannot be read back make the store count as away', async () => {
    const before = start(file, { maxClients: 5 })
    for (let n = 0; n < 20; n++) await before.take(call(`client-${n}`))
    await saved('client-19', 1)
    await before.take(call('client-20'))
    const disk = openSqliteFile(file, unexpected)
    await disk.read('ALTER TABLE quota RENAME TO elsewhere')
    await expect(before.take(call('client-0'))).rejects.toMatchObject({ reason: 'error' })
    await disk.read('ALTER TABLE elsewhere RENAME TO quota')
    expect(await before.take(call('client-0', { need: 0 }))).toMatchObject({ day: { taken: 1 } })
    await disk.close()
  })

  it('are asked of a disk that hangs by a bounded number of calls', async () => {
    const found: (() => void)[] = []
    const rows = {
      find: () => new Promise<undefined>((resolve) => found.push(() => resolve(undefined))),
    }
    const journal = { mayForget: () => true, carriedOut: () => undefined } as unknown as Journal
    const nothing = { minuteIndex: 0, minuteTaken: 0, dayIndex: 0, dayTaken: 0, ahead: 0 }
    const kept = { client: 'kept', ...nothing }
    const hanging = createEmbeddedAuthority({
      clock: { epochMs: () => START_MS },
      maxClients: 1,
      keeper: { journal, rows, restored: [kept] },
    })
    const ask = async (client: number) => hanging.take(call(`client-${client}`))
    const asked = Array.from({ length: 10_000 }, (_, n) => ask(n).catch(({ reason }) => reason))
    await Promise.all(asked.slice(4_000)).then((late) =>
      expect(new Set(late)).toEqual(new Set(['timeout'])),
    )
    expect(found).toHaveLength(4_000)
    for (const answer of found.splice(0)) answer()
    await Promise.all(asked)
    const next = ask(10_000)
    expect(found).toHaveLength(1)
    found[0]?.()
    expect(await next).toMatchObject({ status: 'granted' })
  })

  it('stay in memory while the disk is full, which is reported once, and are kept when there is room again', async () => {
    const onFault = vi.fn<(error: unknown) => void>()
    const onRecovered = vi.fn<() => void>()
    const before = start(file, { onFault, onRecovered })
    const disk = openSqliteFile(file, unexpected)
    await disk.read('PRAGMA max_page_count = 1')
    for (let n = 0; n < 3_000; n++) void before.take(call(`client-${n}`))
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
    void before.take(call('client-7', { sequence: 2, need: 3, minute: hold(1), day: dayHold(1) }))
    expect(onFault).toHaveBeenCalledOnce()
    expect(onRecovered).not.toHaveBeenCalled()
    await disk.read('PRAGMA max_page_count = 100000')
    await saved('client-2999', 1)
    await saved('client-7', 4)
    await until(() => onRecovered.mock.calls.length > 0)
    expect(onRecovered).toHaveBeenCalledOnce()
    expect(await rows()).toHaveLength(3_000)
    await disk.close()
  })

  it('of 12,000 clients are restored, each with its own count', async () => {
    const before = start(file)
    const count = (n: number): number => 1 + (n % 9)
    for (let n = 0; n < 12_000; n++) {
      const taken = before.take(call(`client-${n}`, { need: count(n) }))
      if (n % 1_000 === 0) await taken
    }
    await before.close()
    // The file is no larger for being written again and again.
    const bytes = statSync(file).size
    const after = start(file)
    expect(after.size).toBe(12_000)
    for (let n = 0; n < 12_000; n++) {
      const { minute } = await after.take(call(`client-${n}`, { need: 0 }))
      if (minute.taken !== count(n)) expect([n, minute.taken]).toEqual([n, count(n)])
    }
    await after.close()
    expect(statSync(file).size).toBeLessThan(bytes * 1.5)
  })

  it('begin anew when the file is damaged, which is reported', async () => {
    const before = start()
    void before.take(call('acme', { need: 9 }))
    await before.close()
    truncateSync(file, 4_096)
    const onFileEvent = vi.fn<OnFileEvent>()
    expect(await start(file, { onFileEvent }).take(call('acme'))).toMatchObject({
      minute: { taken: 1 },
    })
    expect(onFileEvent).toHaveBeenCalledOnce()
  })

  it('are in memory alone without a file', async () => {
    const files = readdirSync(directory).length
    const before = start(undefined, { file: undefined })
    expect(await before.take(call('acme'))).toMatchObject({
      status: 'granted',
      minute: { taken: 1 },
    })
    await before.close()
    expect(readdirSync(directory)).toHaveLength(files)
  })
})

/** The file as the journal sees it, which answers when it is told to. A crash leaves the write under way done, or not. */
class SlowRows {
  readonly kept: Map<string, Row>
  #underway: { readonly rows: readonly Row[]; done(): void } | undefined

  constructor(kept: Map<string, Row>) {
    this.kept = kept
  }
  save(rows: readonly Row[]): Promise<void> {
    return new Promise((done) => (this.#underway = { rows, done }))
  }
  answer(): void {
    this.#write()
    this.#underway?.done()
    this.#underway = undefined
  }
  crash(isDone: boolean): void {
    if (isDone) this.#write()
    this.#underway = undefined
  }
  async find(client: string): Promise<Row | undefined> {
    return this.kept.get(client)
  }
  async removeDaysBefore(dayIndex: number): Promise<void> {
    for (const [client, row] of this.kept) if (row.dayIndex < dayIndex) this.kept.delete(client)
  }
  async dropAhead(): Promise<void> {
    for (const [client, row] of this.kept) this.kept.set(client, { ...row, ahead: 0 })
  }
  async close(): Promise<void> {}
  load(nowMs: number): readonly Row[] {
    const [minuteIndex, dayIndex] = [Math.floor(nowMs / 60_000), Math.floor(nowMs / 86_400_000)]
    return foundAfterACrash(this.kept, { minuteIndex, dayIndex })
  }
  #write(): void {
    for (const row of this.#underway?.rows ?? []) this.kept.set(row.client, row)
  }
}

/** An authority on such a file; `round` begins a round of writing. */
function keptOn(
  rows: SlowRows,
  {
    clock = { epochMs: () => START_MS },
    timeoutMs = 60_000,
    restored = [],
    ...more
  }: {
    clock?: { epochMs(): number }
    timeoutMs?: number
    restored?: readonly Row[]
    maxClients?: number
  } = {},
) {
  let begin = (): void => undefined
  const timers = { every: (_: number, task: () => void) => ((begin = task), () => undefined) }
  const [onFault, onRecovered] = [unexpected, () => undefined]
  const journal = new Journal({ timeoutMs, rows, clock, timers, onFault, onRecovered })
  const keeper = { rows, journal, restored }
  return { authority: createEmbeddedAuthority({ clock, keeper, ...more }), round: () => begin() }
}
const turn = () => new Promise((resolve) => setImmediate(resolve))

describe('a file that answers late', () => {
  beforeAll(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
  afterAll(() => void vi.useRealTimers())

  let rows: SlowRows
  beforeEach(() => void (rows = new SlowRows(new Map())))

  it('is waited for 80 ms of 100, by whoever comes before that is seen, and by nobody then', async () => {
    const { authority } = keptOn(rows, { timeoutMs: 100 })
    const decided: string[] = []
    const ask = (client: string): void => {
      const reply = authority.take(call(client))
      if (reply instanceof Promise) void reply.then(() => decided.push(client))
      else decided.push(`${client} at once`)
    }
    await turn()
    ask('one')
    await turn()
    vi.advanceTimersByTime(50)
    // Goes with the next write: the one under way does not make its wait longer.
    ask('other')
    await turn()
    vi.advanceTimersByTime(30)
    await turn()
    expect(decided).toEqual(['one'])
    ask('third')
    expect(decided).toEqual(['one', 'third at once'])
    vi.advanceTimersByTime(50)
    await turn()
    expect(decided).toEqual(['one', 'third at once', 'other'])
    rows.answer()
    await turn()
    ask('fourth')
    await turn()
    expect(decided).toHaveLength(3)
    for (let write = 0; write < 2; write++) {
      rows.answer()
      await turn()
    }
    expect(decided).toEqual(['one', 'third at once', 'other', 'fourth'])
  })

  it('gets another row where either of the two would say too little after a crash', async () => {
    const { authority, round } = keptOn(rows)
    const own = { perMinute: 100, perDay: 1_000 }
    const held = (sequence: number, used: number, need: number) =>
      authority.take(
        call('acme', { sequence, limits: own, need, minute: hold(used), day: dayHold(used) }),
      )
    const first = held(1, 0, 50)
    await turn()
    rows.answer()
    await first
    await turn()
    // Ten charges are handed back, and the row that says so is under way when ten others are made.
    void held(2, 40, 0)
    round()
    await turn()
    const spent = vi.fn()
    const taken = Promise.resolve(held(3, 40, 10)).then(spent)
    await turn()
    rows.answer()
    await turn()
    expect(spent).not.toHaveBeenCalled()
    rows.answer()
    await taken
    const { minuteTaken = 0, ahead = 0 } = rows.kept.get('acme') ?? {}
    expect(minuteTaken + ahead).toBeGreaterThanOrEqual(50)
  })

  it('has a reset before that is answered, so that a crash cannot undo it any more', async () => {
    const used = { minuteIndex: MINUTE, minuteTaken: 5, dayIndex: DAY, dayTaken: 5, ahead: 0 }
    const { authority } = keptOn(rows, { restored: [{ client: 'acme', ...used }] })
    const counters = createEmbeddedCounters(authority, () => undefined)
    const looked = await counters.attend({ id: 'acme', limits }, [])
    expect(looked.after).toMatchObject({ minute: { taken: 5 }, day: { taken: 5 } })
    const answered = vi.fn()
    const reset = counters.attend({ id: 'acme', limits }, ['day']).then(answered)
    for (let turns = 0; turns < 5; turns++) await turn()
    expect(answered).not.toHaveBeenCalled()
    rows.answer()
    await reset
    expect(rows.kept.get('acme')).toMatchObject({ minuteTaken: 5, dayTaken: 0 })
  })

  const step = fc.record({
    client: fc.integer({ min: 0, max: 2 }),
    player: fc.integer({ min: 0, max: 2 }),
    passedMs: fc.oneof(
      { weight: 6, arbitrary: fc.integer({ min: 0, max: 20_000 }) },
      { weight: 1, arbitrary: fc.constantFrom(86_400_000, 4 * 3_600_000) },
    ),
    need: fc.integer({ min: 0, max: 5 }),
    ahead: fc.integer({ min: 0, max: 8 }),
    spends: fc.integer({ min: 0, max: 8 }),
    returns: fc.boolean(),
    answers: fc.boolean(),
    ends: fc.constantFrom('not', 'not', 'not', 'not', 'stop', 'crash', 'crash, written'),
  })
  const anyLimits = fc.constantFrom(
    { perMinute: 1, perDay: 1 },
    { perMinute: 7, perDay: 11 },
    { perMinute: 64, perDay: 90 },
  )

  /** A gateway process: what it holds of a client, and has spent of it. */
  interface Player {
    readonly id: string
    sequence: number
    minute: Statement
    day: Statement
    isCalling: boolean
  }

  it('never admits more than the limit, in any window, whenever it crashes or stops', async () => {
    await fc.assert(
      fc.asyncProperty(
        anyLimits,
        fc.constantFrom(2, 1_000),
        fc.array(step, { minLength: 1, maxLength: 80 }),
        async (own, maxClients, steps) => {
          const time = { ms: START_MS }
          const clock = { epochMs: () => time.ms }
          rows = new SlowRows(new Map())
          let boot = 0
          const begin = () => {
            boot++
            // What still runs of a boot that crashed writes nothing.
            rows = new SlowRows(rows.kept)
            const restored = rows.load(time.ms)
            return keptOn(rows, { clock, maxClients, restored, timeoutMs: 100 })
          }
          let { authority, round } = begin()
          const players = new Map<string, Player>()
          const admitted = new Map<string, number>()
          let broken: string | undefined
          const admit = (client: string, player: Player, count: number): void => {
            for (const [kind, limit] of [
              ['minute', own.perMinute],
              ['day', own.perDay],
            ] as const) {
              const { index, used, held } = player[kind]
              player[kind] = { index, used: used + count, held }
              const window = `${client} ${kind} ${index}`
              const total = (admitted.get(window) ?? 0) + count
              admitted.set(window, total)
              if (total > limit) broken ??= `${total} of ${limit} in ${window}`
            }
          }
          for (const move of steps) {
            time.ms += move.passedMs
            if (move.answers) rows.answer()
            await turn()
            if (move.ends === 'stop') {
              let isOver = false
              void authority.close().then(() => (isOver = true))
              while (await turn().then(() => !isOver)) rows.answer()
            } else if (move.ends !== 'not') rows.crash(move.ends === 'crash, written')
            if (move.ends !== 'not') {
              players.clear()
              ;({ authority, round } = begin())
            }
            if (move.need === 0) round()
            const client = `client-${move.client}`
            const name = `${boot}-${move.client}-${move.player}`
            const player = players.get(name) ?? {
              id: name,
              sequence: 0,
              minute: NOTHING,
              day: NOTHING,
              isCalling: false,
            }
            players.set(name, player)
            if (player.isCalling) continue
            // A hold is spent within its window only.
            const free = (window: Statement): number => window.held - window.used
            const isRunning = player.minute.index === Math.floor(time.ms / 60_000)
            if (isRunning)
              admit(client, player, Math.min(move.spends, free(player.minute), free(player.day)))
            const stated = (window: Statement): Statement =>
              move.returns ? { ...window, held: window.used } : window
            const heard = (reply: TakeReply): void => {
              player.isCalling = false
              // Nobody is there any more to hear it.
              if (players.get(name) !== player) return
              believe(player, reply)
              admit(client, player, Math.min(move.need, free(player.minute), free(player.day)))
            }
            const reply = authority.take({
              client,
              process: player.id,
              sequence: ++player.sequence,
              limits: own,
              minute: stated(player.minute),
              day: stated(player.day),
              need: move.need,
              want: move.need + move.ahead,
            })
            player.isCalling = true
            if (reply instanceof Promise) void reply.then(heard)
            else heard(reply)
          }
          rows.answer()
          await turn()
          expect(broken).toBeUndefined()
        },
      ),
      { numRuns: 200 },
    )
  })

  function believe(player: Player, reply: TakeReply): void {
    for (const kind of ['minute', 'day'] as const) {
      const { index, held } = reply[kind]
      player[kind] = { index, held, used: player[kind].index === index ? player[kind].used : 0 }
    }
  }
})
