/** Logs that are right, and the same with one thing in them that is wrong or that an operator, an outage or a gap has made: a cause is named only where it is proven. */
import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../../src/config/clients/load.ts'
import { replay } from '../../../src/tools/replay/replay.ts'
import { openLogs } from '../../../src/tools/log-files/open.ts'
import { clientsBlock, configFile } from '../../process/gateways.ts'
import { temporaryFile } from '../../support/processes.ts'

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
const note = (nth: number, event: string, fields: object = {}): Line => {
  return { time: at(100 * nth - 1), event, ...fields }
}
const audit = (nth: number, action: string, status = 200, window = 'both'): Line =>
  note(nth, 'audit', {
    action,
    status,
    ...(action === 'resetUsage' ? { id: 'acme', window } : { key: 'acme-1' }),
    ...(action === 'ban' && { after: { until: at(3_600_000) } }),
  })
const bannedAt = (nth: number): Line => note(nth, 'keyBanned', { key: 'acme-1', forMs: 3_600_000 })

const admitted: Line = { status: 200, backend: 'b', refusal: undefined, minuteLeft: LIMIT - 1 }
const unsent = { status: 429, backend: undefined, refusal: 'rate_limit_exceeded' }
const refused: Line = { ...unsent, minuteLeft: 0 }
const unknown = { minuteLeft: undefined, dayLeft: undefined }
const banned: Line = { ...unsent, ...unknown, status: 403, refusal: 'api_key_banned' }
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

type Edit = (lines: Line[]) => Line[]
/** Lines from one number on, and up to another, become this. */
const become =
  (from: number, to: number, fields: Line): Edit =>
  (lines) =>
    lines.map((line, nth) => (nth >= from && nth < to ? { ...line, ...fields } : line))
const without =
  (from: number, to: number): Edit =>
  (lines) =>
    lines.filter((_, nth) => nth < from || nth >= to)

/** Lines that the reading has in the next piece: it waits no longer than a second for them. */
const pause = Array.from({ length: 8 }, () => ({ event: 'pause', text: 'x'.repeat(60_000) }))
/** One that was charged then, and lasted until the line of this number was written. */
const long =
  (chargedMs: number, fields: Line = {}, until = 59): Edit =>
  (lines) => {
    const [line = {}] = lines
    const { time } = lines[until] ?? line
    const agoMs = Date.parse(String(time)) - START_MS - chargedMs
    const late = { ...line, ...admitted, time, agoMs, ...fields }
    const slow = [...pause.map((one) => ({ time, ...one })), late]
    return lines.toSpliced(until + 1, 0, ...slow)
  }

interface Around {
  /** Beside the ban that the refusals earn; or in its place. */
  readonly and?: Line
  readonly notes?: readonly Line[]
  readonly store?: string
  /** Without the start of its gateway. */
  readonly isCut?: boolean
}
const configs = new Map<string | undefined, ReturnType<typeof loadConfig>>()
const configOf = (store: string | undefined): ReturnType<typeof loadConfig> => {
  const all = store === undefined ? blocks : { ...blocks, store }
  const config = configs.get(store) ?? loadConfig(configFile('http://127.0.0.1:1', all), {})
  configs.set(store, config)
  return config
}

async function differing(processes: readonly Line[], edits: readonly Edit[], around: Around) {
  const { and, notes = [bannedAt(FIRST_BANNED), ...(and ? [and] : [])], store, isCut } = around
  const config = await configOf(store)
  let lines = right(processes, config.revision.slice(0, 6))
  for (const edit of edits) lines = edit(lines)
  const log = [...(isCut ? [] : [note(-1, 'configTaken', { store: '' })]), ...notes, ...lines]
  log.sort((one, other) => String(one['time']).localeCompare(String(other['time'])))
  const text = log.map((line) => `${JSON.stringify(line)}\n`).join('')
  const logs = openLogs([temporaryFile('a.log', text)], { windowMs: 1_000 })
  const report = await replay({ config, logs })
  return Object.entries(report.log?.differs ?? {}).filter(([, count]) => count > 0)
}

const store = 'store: { redis: "redis://127.0.0.1:1" }'
const open: Line = { ...admitted, minuteLeft: 0 }
const bolt = { client: 'bolt', key: 'bolt-1' }
/** One admitted, or refused, beyond the limit or within. */
const more = (nth: number, fields = open): Edit => become(nth, nth + 1, fields)
const away = more(5, { ...admitted, degraded: true })
const last = (count: number): Edit => become(LIMIT - count, LIMIT, refused)
const bannedFrom = (nth: number): Edit => become(nth, 60, banned)
const letIn = become(0, 60, admitted)
/** From one on, six refusals and the ban. */
const refusedFrom =
  (first: number): Edit =>
  (lines) =>
    bannedFrom(first + 6)(become(first, first + 6, refused)(lines))
const midst = become(0, 60, { ...admitted, minuteLeft: 20 })
const gap = without(10, 15)
const suppressed = note(15, 'linesSuppressed', { lines: 5 })
const dropped = note(15, 'linesDropped', { lines: 5 })

const oneMore = [more(LIMIT)]
const degraded = more(LIMIT, { ...open, degraded: true })
const tooSoon = more(10, { ...refused, minuteLeft: 1 })
const early = [bannedFrom(20)]
const quiet = { and: note(3, 'linesSuppressed') }
const lost = { and: note(3, 'storeLost'), store }
const outage = { notes: [note(3, 'banStoreLost'), note(12, 'banStoreBack')] }
const over = { notes: [note(-200, 'storeLost'), note(-150, 'storeBack')] }
const reset = (status?: number, window?: string): Around => {
  return { notes: [audit(30, 'resetUsage', status, window)] }
}
/** Banned by an operator, and let in again. */
const bannedTo = (nth: number): Edit[] => [letIn, become(20, nth, banned)]
const lifted = (nth: number): Around => ({ notes: [audit(20, 'ban'), audit(nth, 'liftBan')] })

describe('a log that', () => {
  it.each<[string, readonly Line[], Edit[], Record<string, number>, Around?]>([
    ['is right', alone, [], {}],
    ['is right, of workers', workers, [], {}],
    ['is right, of gateways', gateways, [], {}, { store }],

    ['has one more admitted', alone, [more(LIMIT + 2)], { unexplained: 1 }],
    ['has one more admitted, of gateways', gateways, oneMore, { unexplained: 1 }, { store }],
    ['has one more while lines are suppressed', workers, oneMore, { unexplained: 1 }, quiet],
    ['has one more admitted in an outage', gateways, oneMore, { unexplained: 1 }, lost],
    ['is banned early in an outage', workers, early, { strikes: 26 }, outage],
    ['is banned early after an outage that is over', workers, early, { unexplained: 26 }, over],
    ['has one more admitted without the store', gateways, [degraded], { limits: 1 }, { store }],
    [
      'begins in the midst of a minute, and has more admitted than that allows',
      workers,
      [midst, without(0, 10)],
      { missing: 19, unexplained: 10 },
      { isCut: true },
    ],
    ['has one refused too early', alone, [more(10, refused)], { unexplained: 1 }],
    ['has a refusal counted', alone, [more(10, free), last(1)], { unexplained: 3 }],
    ['has a ban without strikes', alone, early, { unexplained: 26 }, { notes: [] }],

    ['has the last refused, of workers', workers, [last(2)], { limits: 2 }],
    ['has the last refused, of gateways', gateways, [last(2)], { limits: 2 }, { store }],
    ['has one refused with some left, of workers', workers, [tooSoon], { unexplained: 1 }],
    ['has the last refused, of one process', alone, [last(2)], { unexplained: 2 }],

    ['has the last refused after one without the store', alone, [away, last(2)], { limits: 2 }],
    ['is banned early after one without the store', alone, [away, bannedFrom(20)], { strikes: 26 }],

    ['was reset', alone, [letIn], { limits: 20 }, reset()],
    ['was not allowed to be reset', alone, [letIn], { unexplained: 20 }, reset(503)],
    ['was reset in its day alone', alone, [letIn], { unexplained: 20 }, reset(200, 'day')],
    [
      'was reset and then banned without strikes',
      alone,
      [bannedFrom(35)],
      { unexplained: 11 },
      { notes: [audit(30, 'resetUsage'), bannedAt(35)] },
    ],
    ['was banned by an operator', alone, early, { strikes: 26 }, { notes: [audit(20, 'ban')] }],
    ['was banned and let in', alone, bannedTo(40), { strikes: 40 }, lifted(40)],
    ['was let in, and one more', alone, bannedTo(39), { strikes: 38, unexplained: 1 }, lifted(39)],
    ['has a gap', alone, [gap], { missing: 10 }, { and: suppressed }],
    ['has a gap, of workers', workers, [gap], { missing: 10 }, { and: dropped }],
    ['has a gap that nothing tells of', alone, [gap], { unexplained: 10 }],

    ['has one that waited for nothing', alone, [more(FIRST_BANNED, refused)], { unexplained: 1 }],

    [
      'has a long one whose line came before it counted',
      alone,
      [refusedFrom(39), long(50, {}, 20)],
      {},
      { notes: [bannedAt(45)] },
    ],
    [
      'has one long one, and is refused as if there were two',
      alone,
      [refusedFrom(38), long(50, {}, 20)],
      { missing: 2 },
      { notes: [bannedAt(44)] },
    ],
    ['has a long one whose line came later', alone, [last(1), long(50)], { unexplained: 1 }],
    ['has a long one of another client', alone, [last(1), long(50, bolt, 20)], { unexplained: 1 }],
    ['has one of the minute before', alone, [last(1), long(-20_000, {}, 20)], { unexplained: 1 }],
    ['has as many as the limit, and a long one', alone, [long(50)], { unexplained: 1 }],
  ])('%s', async (...[, processes, edits, causes, around = {}]) => {
    expect(Object.fromEntries(await differing(processes, edits, around))).toEqual(causes)
  })
})
