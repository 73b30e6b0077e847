/** What every authority must do; each authority's own test file runs this suite. */
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Authority, TakeReply, TakeRequest } from '../../src/state/quota.ts'
import { START_MS, type Time } from '../support/controlled-authority.ts'

const MINUTE = Math.floor(START_MS / 60_000)
const DAY = Math.floor(START_MS / 86_400_000)
const none = { index: -1, used: 0, held: 0 }

/** One token for a client that is met for the first time. */
export const call = (client: string, sequence = 1) => ({
  client,
  process: 'a',
  sequence,
  limits: { perMinute: 10, perDay: 100 },
  minute: none,
  day: none,
  need: 1,
  want: 1,
})

export function authorityContract(
  name: string,
  start: (time: Time) => Authority | Promise<Authority>,
  { losesData }: { losesData: boolean } = { losesData: false },
): void {
  describe(`the authority in ${name}`, () => {
    let authority: Authority
    let clients = 0
    let client = ''
    const time = { ms: START_MS }
    const sequences = new Map<string, number>()

    beforeAll(async () => {
      authority = await start(time)
    })
    beforeEach(async () => {
      client = `client-${clients++}`
      sequences.clear()
      // It was met a while ago, so nobody is waited for.
      time.ms = START_MS - 120_000
      await take({ process: 'before', need: 0 })
      time.ms = START_MS
    })

    const take = async (change: Partial<TakeRequest> = {}): Promise<TakeReply> => {
      const process = change.process ?? 'a'
      const sequence = (sequences.get(process) ?? 0) + 1
      sequences.set(process, sequence)
      const need = change.need ?? 1
      return authority.take({
        client,
        process,
        sequence,
        limits: { perMinute: 3, perDay: 10 },
        minute: none,
        day: none,
        need,
        want: need,
        ...change,
      })
    }
    const answers = async (change: Partial<TakeRequest>, reply: object) =>
      expect(await take(change)).toMatchObject(reply)
    const holds = (used: number, held = used) => ({
      minute: { index: MINUTE, used, held },
      day: { index: DAY, used, held },
    })

    /** Of both windows. */
    const both = (counts: object) => ({ minute: counts, day: counts })

    it('grants exactly the limit, one after the other, and then nothing', async () => {
      for (let used = 0; used < 3; used++) {
        const counts = { held: used + 1, taken: used + 1, used: used + 1 }
        await answers(holds(used), {
          status: 'granted',
          minute: { index: MINUTE, ...counts },
          day: { index: DAY, ...counts },
        })
      }
      const refused = await take(holds(3))
      expect(refused).toMatchObject({ status: 'short', ...both({ taken: 3, used: 3, held: 3 }) })
    })

    it('grants what is left when more is needed, and calls it short', async () => {
      await answers({ need: 5 }, { status: 'short', minute: { held: 3 } })
    })

    it('charges neither window when the day is used up', async () => {
      const limits = { perMinute: 5, perDay: 2 }
      await answers({ limits, need: 3 }, { status: 'short', ...both({ taken: 2 }) })
      await answers({ ...holds(2), limits }, { status: 'short', ...both({ taken: 2, used: 2 }) })
    })

    it('answers a repeated call as before and changes nothing', async () => {
      const first = await take({ sequence: 1 })
      // The notice went out with the first.
      expect(await take({ sequence: 1 })).toEqual({ ...first, notice: undefined })
      const short = await take({ ...holds(1), sequence: 2, need: 9 })
      expect(short.status).toBe('short')
      const again = await take({ ...holds(1), sequence: 2, need: 9 })
      expect(again).toEqual({ ...short, notice: undefined })
    })

    it('tells all when somebody is refused, and once when tokens are free again', async () => {
      const noticed = async (change: Partial<TakeRequest>) => (await take(change)).notice
      await take({ process: 'a' })
      time.ms += 1000
      expect(await noticed({ ...holds(1), process: 'a', need: 2 })).toBeUndefined()
      expect(await noticed({ process: 'b' })).toBe('short')
      // All is spent, and nobody could return anything.
      expect(await noticed({ process: 'c' })).toBeUndefined()
      expect(await noticed({ ...holds(2), process: 'a', need: 0 })).toBe('free')
      expect(await noticed({ ...holds(1), process: 'a', need: 0 })).toBeUndefined()
      expect(await noticed({ ...holds(1, 3), process: 'a', need: 0 })).toBeUndefined()
      // Each refusal asks for tokens that are held and not spent.
      for (const process of ['b', 'c']) expect(await noticed({ process })).toBe('short')
      // Who was refused in a minute is not told of the next.
      time.ms += 60_000
      expect(await noticed({ process: 'a', need: 0 })).toBeUndefined()
    })

    it('tells all when more than a sixteenth of the minute was taken since all have known, while others hold tokens', async () => {
      const limits = { perMinute: 160, perDay: 1000 }
      const noticed = async (change: Partial<TakeRequest>) =>
        (await take({ limits, ...change })).notice
      // One alone has no need of it; nor does one that holds nothing.
      expect(await noticed({ process: 'a', need: 20 })).toBeUndefined()
      expect(await noticed({ ...holds(20), process: 'a', need: 1, want: 6 })).toBeUndefined()
      // Of 26 both have known: to 36 it is no news, and one more is.
      expect(await noticed({ process: 'b', need: 10 })).toBeUndefined()
      expect(await noticed({ ...holds(10), process: 'b' })).toBe('free')
      expect(await noticed({ ...holds(11), process: 'b', need: 10 })).toBeUndefined()
      // What goes back is known to who returns it, so that as much is news once more.
      expect(await noticed({ ...holds(11), process: 'b', need: 0 })).toBeUndefined()
      expect(await noticed({ ...holds(11), process: 'b', need: 10 })).toBeUndefined()
      expect(await noticed({ ...holds(21), process: 'b' })).toBe('free')
      // Nobody else holds tokens: nobody says from memory what is left.
      expect(await noticed({ ...holds(26), process: 'a', need: 0 })).toBeUndefined()
      expect(await noticed({ ...holds(22), process: 'b', need: 30 })).toBeUndefined()
    })

    it('grants nothing ahead in a minute any more after sixteen times of such news', async () => {
      const limits = { perMinute: 160, perDay: 1000 }
      await take({ process: 'a', limits, need: 1, want: 6 })
      let news = 0
      const asked = { process: 'b', limits, need: 0, want: 20 }
      for (let n = 0; n < 40; n++) {
        const { notice, minute } = await take({ ...asked, ...holds(0) })
        expect(minute.held).toBe(news < 16 ? 20 : 0)
        if (notice === 'free') news += 1
        await take({ ...asked, ...holds(0), want: 0 })
      }
      expect(news).toBe(16)
      await answers({ ...asked, ...holds(0), need: 1 }, { status: 'granted' })
      time.ms += 60_000
      expect((await take(asked)).minute.held).toBe(20)
    })

    it('ignores a call that arrives after a later one', async () => {
      await take({ sequence: 5 })
      await answers({ sequence: 4, need: 2 }, { status: 'stale', ...both({ held: 1, taken: 1 }) })
    })

    it('takes back what the caller no longer holds', async () => {
      await take({ need: 3 })
      await answers(
        { ...holds(1, 1), need: 0 },
        { status: 'granted', ...both({ held: 1, taken: 1, used: 1 }) },
      )
      await answers({ process: 'b', need: 2 }, { status: 'granted' })
    })

    it('charges what the caller spent without asking, beyond the limit too', async () => {
      await take()
      await answers({ ...holds(7), need: 0 }, { ...both({ taken: 7, used: 7 }) })
      await answers({ process: 'b' }, { status: 'short' })
    })

    it('adds up what several processes hold', async () => {
      await take({ process: 'a' })
      await take({ process: 'b' })
      await answers({ process: 'c', need: 2 }, { status: 'short', minute: { held: 1, taken: 3 } })
    })

    it('shares with the processes of the minute before, but not of earlier ones', async () => {
      const limits = { perMinute: 100, perDay: 1000 }
      await take({ process: 'a' })
      await take({ process: 'b' })
      time.ms = START_MS + 60_000
      const shared = await take({ process: 'a', limits, want: 80 })
      expect(shared).toMatchObject({ minute: { held: 50 } })
      time.ms = START_MS + 180_000
      const alone = await take({ process: 'a', limits, want: 80 })
      expect(alone).toMatchObject({ minute: { held: 80 } })
    })

    it('forgets the minute when it ends and keeps the day', async () => {
      await take({ need: 3 })
      time.ms = (MINUTE + 1) * 60_000 - 0.001
      await answers(holds(3), { status: 'short', nowMs: (MINUTE + 1) * 60_000 })
      time.ms = (MINUTE + 1) * 60_000
      await answers(holds(3), {
        status: 'granted',
        nowMs: (MINUTE + 1) * 60_000,
        minute: { index: MINUTE + 1, held: 1, taken: 1, used: 1 },
        day: { index: DAY, held: 4, taken: 4, used: 4 },
      })
    })

    it('forgets both windows when the day ends, sequence numbers included', async () => {
      await take({ need: 3, sequence: 9 })
      time.ms = (DAY + 1) * 86_400_000
      await answers(
        { ...holds(3), sequence: 2 },
        {
          status: 'granted',
          minute: { held: 1, taken: 1 },
          day: { index: DAY + 1, held: 1, taken: 1 },
        },
      )
    })

    it('never opens an ended window again when the clock goes back by a small skew', async () => {
      await take({ need: 3 })
      time.ms = START_MS + 60_000
      await take({ ...holds(3), need: 3 })
      time.ms = START_MS
      await answers(
        { process: 'b' },
        { status: 'short', minute: { index: MINUTE + 1 }, day: { taken: 6 } },
      )
    })

    it.each([
      ['an hour', 3_600_000, { taken: 2 }],
      ['a day', 86_400_000, { taken: 1 }],
      ['a hundred years', 36_525 * 86_400_000, { taken: 1 }],
    ])('is right again at once when its clock was %s ahead', async (_, byMs, day) => {
      await take({ need: 1 })
      time.ms = START_MS + byMs
      await answers({ process: 'b' }, { minute: { taken: 1 } })
      time.ms = START_MS
      await answers(
        { process: 'b' },
        { status: 'granted', minute: { index: MINUTE, taken: 1 }, day: { index: DAY, ...day } },
      )
    })

    it('keeps counted what a process used before it forgot the client and met it again', async () => {
      await take({ need: 2 })
      await answers({ since: 1, need: 0 }, { ...both({ held: 0, taken: 2, used: 2 }) })
      // It is one process still, and all that is left may be its own.
      const limits = { perMinute: 100, perDay: 1000 }
      const more = await take({ since: 1, need: 1, limits, want: 80 })
      expect(more).toMatchObject({ minute: { held: 80, taken: 82 } })
      // Of the later life alone it may take back.
      const undone = { since: 1, need: 0, ...holds(0) }
      await answers(undone, { day: { taken: 2, used: 2 } })
      await answers({ sequence: 1 }, { status: 'stale', day: { taken: 2 } })
    })

    // One that is part of this process forgets nothing that others know.
    if (losesData)
      describe('when it has lost data', () => {
        it('counts the lost use that only others know, until they state it themselves', async () => {
          // Of 3, a has used 1 and b 1; a was told of both.
          const told = { index: MINUTE, used: 1, held: 1, taken: 2 }
          const a = { process: 'a', heard: 7, minute: told, day: { ...told, index: DAY } }
          sequences.set('a', 7).set('b', 7)
          await answers(a, { status: 'lost', notice: 'unknown', minute: { taken: 2 } })
          await answers({ process: 'new' }, { status: 'lost', notice: undefined })
          const b = { ...a, process: 'b', need: 0 }
          await answers(b, { status: 'granted', minute: { taken: 2, used: 2 } })
          time.ms += 15
          await answers(
            { process: 'new', want: 3 },
            { status: 'granted', minute: { held: 1, taken: 3 }, day: { taken: 3 } },
          )
          await answers(
            { process: 'new', need: 1, ...holds(1) },
            { status: 'short', minute: { taken: 3, used: 3 } },
          )
        })

        it('grants one request at once to the first that is heard of a client, and then waits for what others know', async () => {
          client = `new-${client}`
          await answers({ need: 1 }, { status: 'granted', notice: 'unknown' })
          await answers({ process: 'b' }, { status: 'lost', minute: { held: 0 } })
          client = `newer-${client}`
          await answers({ need: 3 }, { status: 'lost', minute: { held: 1 } })
          time.ms += 15
          await answers({ process: 'b', need: 2 }, { status: 'granted' })
        })
      })

    it('leases ahead of need at most an equal share of what is left, once it has heard from everybody', async () => {
      const limits = { perMinute: 100, perDay: 1000 }
      client = `new-${client}`
      const early = await take({ process: 'a', limits, want: 80 })
      expect(early.minute).toMatchObject({ held: 1, used: 1 })
      time.ms += 1000
      const later = await take({ process: 'b', limits, want: 80 })
      expect(later).toMatchObject({ ...both({ held: 49, taken: 50, used: 2 }) })
    })

    it('grants no day tokens beyond the day to a process that holds more minute tokens than day tokens', async () => {
      const limits = { perMinute: 100, perDay: 20 }
      await take({ process: 'a', limits, need: 10, want: 10 })
      await take({ process: 'b', limits, need: 10, want: 10 })
      const reply = await take({
        process: 'a',
        sequence: 2,
        limits,
        minute: { index: MINUTE, used: 0, held: 10 },
        day: { index: DAY, used: 10, held: 10 },
      })
      expect(reply).toMatchObject({ status: 'short', day: { held: 10, taken: 20, used: 20 } })
    })

    it('takes no new day tokens for those that outlived their minute', async () => {
      const limits = { perMinute: 100, perDay: 1000 }
      await take({ limits })
      time.ms = START_MS + 60_000
      const reply = await take({ limits, need: 2, ...holds(1, 6) })
      expect(reply).toMatchObject({
        minute: { held: 2, taken: 2, used: 2 },
        day: { held: 6, taken: 6, used: 3 },
      })
    })

    it('lets a changed limit act at once', async () => {
      await take({ need: 3 })
      const raised = { perMinute: 4, perDay: 10 }
      await answers({ ...holds(3), limits: raised }, { status: 'granted' })
      const lowered = { perMinute: 2, perDay: 10 }
      await answers(
        { ...holds(4), limits: lowered },
        { status: 'short', minute: { taken: 4, held: 4 } },
      )
    })

    it('keeps clients apart however alike their names look', async () => {
      const names = ['a', 'a}', '{a', 'a:b', 'a%003ab', 'a%3Ab', 'ä', 'a\u0308', '\ud800', '', ' ']
      for (const alike of names) {
        const own = await take({ client: `${client}${alike}`, process: `p${alike.length}` })
        expect(own, JSON.stringify(alike)).toMatchObject({ minute: { taken: 1 } })
      }
    })

    it('keeps every digit of large counts', async () => {
      const limits = { perMinute: 123_456_789_012_345, perDay: 123_456_789_012_345 }
      await take({ limits })
      const used = 123_456_789_012_343
      await answers({ ...holds(used), limits }, { minute: { taken: used + 1 } })
      await answers(
        { process: 'b', limits, need: 2 },
        { status: 'short', minute: { held: 1, taken: used + 2, used: used + 2 } },
      )
    })
  })
}
