/** Which causes a log is believed to show for answers that are not the replay's, and which not. */
import { describe, expect, it } from 'vitest'
import { Differences, type LoggedRequest } from '../../../src/tools/replay/differences.ts'
import type { Decided } from '../../../src/tools/replay/policy.ts'

/** A moment after a minute has begun, as what was used before counts in it. */
const FROM = Date.parse('2026-11-02T10:00:00.001Z')
const REVISION = 'abcdef'
const BAN_MS = 60_000

const bans = { withinMs: 10_000, forgetAfterMs: 3_600_000 }
const settings = { revision: REVISION, bans }
const usual = {
  client: 'acme',
  keyId: 'acme-1',
  limits: { perMinute: 1_000, perDay: 1_000 },
  refundedAtMs: Number.NaN,
  isDegraded: false,
  minuteLeft: undefined,
  dayLeft: undefined,
  revision: REVISION,
}

interface Line extends Partial<LoggedRequest> {
  readonly at: number
  readonly logged: Decided
  readonly replayed: Decided
}

/** Of two hosts, unless the line says another. */
function causesOf(
  lines: readonly Line[],
  around: {
    forgets?: boolean
    bannedAt?: number
    startedAt?: number
    /** The first line of the client tells of use. */
    usedBefore?: boolean
    restartedAt?: number
    failedAt?: number
  } = {},
): Record<string, number> {
  const { forgets = false, startedAt = -5, usedBefore = false } = around
  const { bannedAt, restartedAt } = around
  const differences = new Differences({ ...settings, forgets })
  const note = (
    event: 'configTaken' | 'startFailed' | 'keyBanned',
    at: number,
    fields = {},
  ): void => differences.facts.applyNote({ event, atMs: FROM + at, fields })
  note('configTaken', startedAt, { store: '' })
  if (usedBefore) differences.usedBefore.add('acme')
  if (restartedAt !== undefined) note('configTaken', restartedAt, { store: '' })
  if (around.failedAt !== undefined) note('startFailed', around.failedAt)
  if (bannedAt !== undefined) note('keyBanned', bannedAt, { key: 'acme-1', forMs: BAN_MS })
  for (const [nth, { at, replayed, ...line }] of lines.entries()) {
    const said = { ...usual, process: `host ${nth % 2}`, ...line }
    differences.compare({ ...said, atMs: FROM + at }, replayed)
  }
  return Object.fromEntries(
    Object.entries(differences.report().differs).filter(([, number]) => number > 0),
  )
}

const refused: Line[] = [0, 1, 2].map((at) => ({ at, logged: 'minute', replayed: 'minute' }))
const before: Line[] = [0, 1, 2].map((at) => ({ at, logged: 'admitted', replayed: 'admitted' }))

describe('the cause of a difference', () => {
  it.each([
    ['let through before others have heard of the ban', 1_500, 'strikes'],
    ['let through in the midst of a ban', 30_000, 'unexplained'],
    ['let through when the ban is about to end', BAN_MS - 500, 'strikes'],
  ])('%s', (_, at, cause) => {
    const through: Line = { at, logged: 'admitted', replayed: 'ban' }
    expect(causesOf([...refused, through], { bannedAt: 3 })).toEqual({ [cause]: 1 })
  })

  it('banned by strikes of another process', () => {
    const banned: Line = { at: 30_000, logged: 'ban', replayed: 'admitted' }
    expect(causesOf([...before, banned], { bannedAt: 3 })).toEqual({ strikes: 1 })
  })

  it.each([
    ['that of another revision before it', 'fedcba', { limits: 4 }],
    ['nothing without one', REVISION, { unexplained: 4 }],
  ])('banned for longer, in the minute after: %s', (_, revision, causes) => {
    const earlier = { logged: 'minute', replayed: 'admitted', revision } as const
    const lines: Line[] = [
      ...[0, 1].map((at) => ({ at, ...earlier })),
      { at: 10, logged: 'ban', replayed: 'admitted', revision },
      { at: BAN_MS + 40_000, logged: 'ban', replayed: 'admitted' },
    ]
    const alone = lines.map((line) => ({ ...line, process: 'host' }))
    expect(causesOf(alone, { bannedAt: BAN_MS + 20_000, forgets: true })).toEqual(causes)
  })

  it.each([
    ['begins with the start of all', -5, { strikes: 1, limits: 1 }],
    ['begins later, so lines are missing', 1, { strikes: 1, missing: 1 }],
  ])(
    'is that of other processes, whatever a first line says was used, if the log %s',
    (...given) => {
      const [, startedAt, causes] = given
      const differing: Line[] = [
        { at: 1_500, logged: 'minute', replayed: 'ban', minuteLeft: 0 },
        { at: 1_501, logged: 'minute', replayed: 'admitted', minuteLeft: 0 },
      ]
      const held = { limits: { perMinute: 3, perDay: 1_000 } }
      const lines = [...before, ...differing].map((line) => ({ ...held, ...line }))
      expect(causesOf(lines, { bannedAt: 3, startedAt, usedBefore: true })).toEqual(causes)
    },
  )

  it.each([
    ['more than one process decided', 'host 1', { limits: 1 }],
    ['one process decided alone', 'host 0', { missing: 1 }],
  ])('let through beyond what a first line left, when %s', (_, process, causes) => {
    const through: Line = { at: 1_501, logged: 'admitted', replayed: 'minute', process }
    const lines = [...before.map((line) => ({ ...line, process: 'host 0' })), through]
    expect(causesOf(lines, { usedBefore: true })).toEqual(causes)
  })

  it('refused half an hour after an operator has banned the key for an hour', () => {
    const differences = new Differences({ ...settings, forgets: true })
    const after = { until: new Date(FROM + 3_600_000).toISOString() }
    const fields = { action: 'ban', status: 200, key: 'acme-1', after }
    differences.facts.applyNote({ event: 'audit', atMs: FROM, fields })
    for (const [at, logged] of [
      [-1, 'admitted'],
      [1_800_000, 'ban'],
      [3_700_000, 'ban'],
    ] as const)
      differences.compare({ ...usual, process: 'host', atMs: FROM + at, logged }, 'admitted')
    expect(differences.report().differs).toMatchObject({ strikes: 1, unexplained: 1 })
  })

  it.each([
    ['after a restart that forgets', { forgets: true, restartedAt: 100 }, 'missing'],
    ['after one that does not', { restartedAt: 100 }, 'unexplained'],
    ['after one that failed', { forgets: true, restartedAt: 100, failedAt: 101 }, 'unexplained'],
    ['without one', { forgets: true }, 'unexplained'],
  ])('one too many: %s', (_, options, cause) => {
    const tooMany: Line = { at: 200, logged: 'admitted', replayed: 'minute' }
    expect(causesOf([...before, tooMany], options)).toEqual({ [cause]: 1 })
  })

  it.each([
    ['this', REVISION, 'unexplained'],
    ['another', 'fedcba', 'limits'],
  ])('one too many, by %s revision', (_, revision, cause) => {
    const tooMany: Line = { at: 200, logged: 'admitted', replayed: 'minute', revision }
    expect(causesOf([...before, tooMany])).toEqual({ [cause]: 1 })
  })
})
