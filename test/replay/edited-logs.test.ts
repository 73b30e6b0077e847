/** Logs that are right, and the same with one thing in them that is wrong or that an operator, an outage or a gap has made: a cause is named only where it is proven. */
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../src/clients/load.ts'
import { openLogs } from '../../src/log-files/open.ts'
import { replay } from '../../src/replay/replay.ts'
import { clientsBlock, configFile } from '../process/gateways.ts'
import { temporaryFile } from '../support/processes.ts'

const START_MS = Date.parse('2026-11-03T14:07:10Z')
const LIMIT = 40
const FIRST_BANNED = LIMIT + 6
const blocks = {
  clients: clientsBlock(
    ['acme', 'bolt'].map((id) => ({ id, keys: [`tg_${id}`], perMinute: LIMIT })),
  ),
  bans: 'bans: { strikes: 5, within: 10s, grace: 0s, duration: 1h, growth: 2 }',
}

type Line = Record<string, unknown>
const at = (ms: number): string => new Date(START_MS + ms).toISOString()
const note = (nth: number, event: string, fields: object = {}): Line => ({
  time: at(100 * nth - 1),
  event,
  ...fields,
})
const audit = (nth: number, action: string, status = 200, window = 'both'): Line =>
  note(nth, 'audit', {
    action,
    status,
    ...(action === 'resetUsage' ? { id: 'acme', window } : { key: 'acme-1' }),
    ...(action === 'ban' && { after: { until: at(3_600_000) } }),
  })
const bannedAt = (nth: number): Line => note(nth, 'keyBanned', { key: 'acme-1', forMs: 3_600_000 })

const admitted: Line = { status: 200, backend: 'b', refusal: undefined, minuteLeft: LIMIT - 1 }
const refused: Line = {
  status: 429,
  backend: undefined,
  refusal: 'rate_limit_exceeded',
  minuteLeft: 0,
}
const banned: Line = {
  status: 403,
  backend: undefined,
  refusal: 'api_key_banned',
  minuteLeft: undefined,
  dayLeft: undefined,
}
const free: Line = { ...banned, status: 404, refusal: 'not_found' }

/** Of a process alone, of workers of a gateway, of workers of two of them: gateway, own, worker. */
const alone = [{ process: '0123456789abcdef' }]
const workers = [
  { process: '0123456789abcdef', worker: 1 },
  { process: '0123456700000000', worker: 2 },
]
const gateways = [...workers, { process: 'fedcba9876543210', worker: 1 }]

/** One request every 100 ms: as many as the limit allows, then six refusals, and the ban that they earn. */
function right(processes: readonly Line[], rev: string): Line[] {
  const answer = (nth: number) => (nth < LIMIT ? admitted : nth < FIRST_BANNED ? refused : banned)
  return Array.from({ length: 60 }, (_, nth) => ({
    time: at(100 * nth),
    event: 'access',
    client: 'acme',
    key: 'acme-1',
    plan: 'enterprise',
    agoMs: 0,
    dayLeft: 1_000_000 - Math.min(nth + 1, LIMIT),
    rev,
    ...processes[nth % processes.length],
    ...answer(nth),
  }))
}

/** Numbers of lines become this. */
const become = (from: number, to: number, fields: Line) => (lines: Line[]) =>
  lines.map((line, nth) => (nth >= from && nth < to ? { ...line, ...fields } : line))
const without = (from: number, to: number) => (lines: Line[]) =>
  lines.filter((_, nth) => nth < from || nth >= to)

/** Lines that the reading has in the next piece: it waits no longer than a second for them. */
const pause = Array.from({ length: 8 }, () => ({ event: 'pause', text: 'x'.repeat(60_000) }))
/** One that was charged then, and lasted until the line of this number was written. */
const long =
  (chargedMs: number, fields: Line = {}, until = 59) =>
  (lines: Line[]): Line[] => {
    const [line = {}] = lines
    const { time } = lines[until] ?? line
    const agoMs = Date.parse(String(time)) - START_MS - chargedMs
    const late = { ...line, ...admitted, time, agoMs, ...fields }
    return [
      ...lines.slice(0, until + 1),
      ...pause.map((one) => ({ time, ...one })),
      late,
      ...lines.slice(until + 1),
    ]
  }

async function differing(
  processes: readonly Line[],
  { edits = [], notes = [bannedAt(FIRST_BANNED)], store, isCut = false }: Edited,
): Promise<Record<string, number>> {
  const file = configFile('http://127.0.0.1:1', store === undefined ? blocks : { ...blocks, store })
  const config = await loadConfig(file, {})
  let lines = right(processes, config.revision.slice(0, 6))
  for (const edit of edits) lines = edit(lines)
  const log = [...(isCut ? [] : [note(-1, 'listening')]), ...notes, ...lines]
  log.sort((one, other) => String(one['time']).localeCompare(String(other['time'])))
  const text = log.map((line) => `${JSON.stringify(line)}\n`).join('')
  const { report } = await replay({
    config,
    logs: openLogs([temporaryFile('a.log', text)], { windowMs: 1_000 }),
  })
  return Object.fromEntries(
    Object.entries(report.log?.differs ?? {}).filter(([, count]) => count > 0),
  )
}

interface Edited {
  readonly edits?: readonly ((lines: Line[]) => Line[])[]
  readonly notes?: readonly Line[]
  readonly store?: string
  /** Without the start of its gateway. */
  readonly isCut?: boolean
}
const redis = 'store: { redis: "redis://127.0.0.1:1" }'
const open: Line = { ...admitted, minuteLeft: 0 }
/** From one on, six refusals and the ban. */
const refusedFrom =
  (first: number) =>
  (lines: Line[]): Line[] =>
    become(first + 6, 60, banned)(become(first, first + 6, refused)(lines))
const last = (count: number) => become(LIMIT - count, LIMIT, refused)

describe('a log that', () => {
  it.each<[string, readonly Line[], Edited, Record<string, number>]>([
    ['is right', alone, {}, {}],
    ['is right, of workers', workers, {}, {}],
    ['is right, of gateways', gateways, { store: redis }, {}],

    [
      'has one more admitted',
      alone,
      { edits: [become(LIMIT + 2, LIMIT + 3, open)] },
      { unexplained: 1 },
    ],
    [
      'has one more admitted, of workers',
      workers,
      { edits: [become(LIMIT, LIMIT + 1, open)] },
      { unexplained: 1 },
    ],
    [
      'has one more admitted, of gateways',
      gateways,
      { edits: [become(LIMIT, LIMIT + 1, open)], store: redis },
      { unexplained: 1 },
    ],
    [
      'has one more admitted while lines are suppressed',
      workers,
      {
        edits: [become(LIMIT, LIMIT + 1, open)],
        notes: [bannedAt(FIRST_BANNED), note(3, 'linesSuppressed')],
      },
      { unexplained: 1 },
    ],
    [
      'has one more admitted in an outage',
      gateways,
      {
        edits: [become(LIMIT, LIMIT + 1, open)],
        notes: [bannedAt(FIRST_BANNED), note(3, 'storeLost')],
        store: redis,
      },
      { unexplained: 1 },
    ],
    [
      'has one more admitted without the store',
      gateways,
      { edits: [become(LIMIT, LIMIT + 1, { ...open, degraded: true })], store: redis },
      { outage: 1 },
    ],
    [
      'begins in the midst of a minute, and has more admitted than that allows',
      workers,
      { edits: [become(0, 60, { ...admitted, minuteLeft: 20 }), without(0, 10)], isCut: true },
      { incomplete: 19, unexplained: 10 },
    ],
    ['has one refused too early', alone, { edits: [become(10, 11, refused)] }, { unexplained: 1 }],
    [
      'has a refusal counted',
      alone,
      { edits: [become(10, 11, free), last(1)] },
      { unexplained: 3 },
    ],
    [
      'has a ban without strikes',
      alone,
      { edits: [become(20, 60, banned)], notes: [] },
      { unexplained: 26 },
    ],
    [
      'has a ban without strikes that is told',
      workers,
      { edits: [become(20, 60, banned)], notes: [bannedAt(20)] },
      { unexplained: 26 },
    ],

    ['has the last refused, of workers', workers, { edits: [last(2)] }, { leases: 2 }],
    [
      'has the last refused, of gateways',
      gateways,
      { edits: [last(2)], store: redis },
      { hosts: 2 },
    ],
    [
      'has one refused with plenty left, of workers',
      workers,
      { edits: [become(10, LIMIT, refused)] },
      { unexplained: 30 },
    ],
    ['has the last refused, of one process', alone, { edits: [last(2)] }, { unexplained: 2 }],

    [
      'was reset',
      alone,
      { edits: [become(0, 60, admitted)], notes: [audit(30, 'resetUsage')] },
      { operator: 20 },
    ],
    [
      'was not allowed to be reset',
      alone,
      { edits: [become(0, 60, admitted)], notes: [audit(30, 'resetUsage', 503)] },
      { unexplained: 20 },
    ],
    [
      'was reset in its day alone',
      alone,
      { edits: [become(0, 60, admitted)], notes: [audit(30, 'resetUsage', 200, 'day')] },
      { unexplained: 20 },
    ],
    [
      'was reset and then banned without strikes',
      alone,
      { edits: [become(35, 60, banned)], notes: [audit(30, 'resetUsage'), bannedAt(35)] },
      { unexplained: 11 },
    ],
    [
      'was banned by an operator',
      alone,
      { edits: [become(20, 60, banned)], notes: [audit(20, 'ban')] },
      { operator: 26 },
    ],
    [
      'was banned and let in',
      alone,
      {
        edits: [become(0, 60, admitted), become(20, 40, banned)],
        notes: [audit(20, 'ban'), audit(40, 'liftBan')],
      },
      { operator: 40 },
    ],
    [
      'was let in and has one more',
      alone,
      {
        edits: [become(0, 60, admitted), become(20, 39, banned)],
        notes: [audit(20, 'ban'), audit(39, 'liftBan')],
      },
      { operator: 38, unexplained: 1 },
    ],
    [
      'has a gap',
      alone,
      {
        edits: [without(10, 15)],
        notes: [bannedAt(FIRST_BANNED), note(15, 'linesSuppressed', { lines: 5 })],
      },
      { incomplete: 10 },
    ],
    [
      'has a gap, of workers',
      workers,
      {
        edits: [without(10, 15)],
        notes: [bannedAt(FIRST_BANNED), note(15, 'linesDropped', { lines: 5 })],
      },
      { incomplete: 10 },
    ],
    ['has a gap that nothing tells of', alone, { edits: [without(10, 15)] }, { unexplained: 10 }],

    [
      'has one that waited for nothing',
      alone,
      { edits: [become(FIRST_BANNED, FIRST_BANNED + 1, refused)] },
      { unexplained: 1 },
    ],

    [
      'has a long one',
      alone,
      { edits: [refusedFrom(39), long(50)], notes: [bannedAt(45)] },
      { late: 2 },
    ],
    [
      'has two long ones',
      alone,
      { edits: [refusedFrom(38), long(50), long(250)], notes: [bannedAt(44)] },
      { late: 4 },
    ],
    [
      'has one long one, and is refused as if there were two',
      alone,
      { edits: [last(2), long(50)] },
      { unexplained: 2 },
    ],
    ['has a long one too late', alone, { edits: [last(1), long(4_050)] }, { unexplained: 1 }],
    [
      'has a long one that was handed back',
      alone,
      { edits: [last(1), long(50, { refundAgoMs: 5_000 })] },
      { unexplained: 1 },
    ],
    [
      'has a long one of another client',
      alone,
      { edits: [last(1), long(50, { client: 'bolt', key: 'bolt-1' })] },
      { unexplained: 1 },
    ],
    [
      'has a long one of the minute before',
      alone,
      { edits: [last(1), long(-20_000)] },
      { unexplained: 1 },
    ],
    ['is right, and has a long one of long before', alone, { edits: [long(-200_000, {}, 30)] }, {}],
    [
      'has one more admitted, and a long one of another client',
      alone,
      { edits: [become(LIMIT + 2, LIMIT + 3, open), long(50, { client: 'bolt', key: 'bolt-1' })] },
      { unexplained: 1 },
    ],
    ['has as many as the limit, and a long one', alone, { edits: [long(50)] }, { unexplained: 1 }],
    [
      'has a refusal that comes late',
      alone,
      { edits: [without(41, 42), long(4_100, refused, 58)] },
      { late: 1 },
    ],
  ])('%s', async (_, processes, edited, causes) => {
    expect(await differing(processes, edited)).toEqual(causes)
  })
})
