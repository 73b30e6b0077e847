import { describe, expect, it } from 'vitest'
import { ticksIn } from '../../../src/cli/operator/top.ts'
import { topFrame, type TopState } from '../../../src/cli/operator/top-frame.ts'
import { all } from '../../support/all.ts'

const seen = { asOf: '2026-11-03T14:07:31.000Z', scope: 'gateway' } as const
const refused = { minute: 4, day: 31, ban: 2, other: 0 }
const client = (name: string, day: number) => ({
  client: name,
  plan: 'pro',
  requests: 310,
  refused: { minute: 0, day, ban: 0, other: 0 },
  meanMs: day > 0 ? null : 8.2,
  maxMs: day > 0 ? null : 22,
  minute: { used: 12, limit: 300 },
  day: { used: day > 0 ? 10_000 : 8_120, limit: 10_000 },
})
const state = {
  overview: {
    ...seen,
    gateway: 'gw-1',
    revision: '3f9c21aaaaaa',
    workers: { listening: 4, wanted: 4 },
    attention: [
      {
        severity: 'bad',
        text: 'The store is away since 14:05:12Z (ECONNREFUSED); onOutage is local',
      },
      { severity: 'warn', text: 'bolt (pro) is refused since 13:58:00Z, 31/s: day quota used up' },
    ],
  },
  store: { ...seen, kind: 'redis', state: 'up' },
  tick: {
    at: seen.asOf,
    requests: 1204,
    refused,
    gatewayMs: { p50: 0.3, p99: 0.9 },
    backendMs: { p50: 8, p99: 31 },
    inFlight: 1,
    untold: 0,
  },
  top: {
    ...seen,
    by: 'requests',
    windowMs: 10_000,
    error: 3,
    clients: [client('bolt', 310), client('acme', 0)],
    gateways: { answered: ['gw-1'], silent: [], why: [] },
  },
  filter: '',
  typing: undefined,
  isPaused: false,
} as unknown as TopState
const frame = (changed: Partial<TopState> = {}, columns = 80, rows = 24) =>
  topFrame({ ...state, ...changed }, rows, { columns, paint: (_colour, text) => text })

describe('a frame of top', () => {
  it('has the gateway, its rates, the clients and the keys', async () => {
    expect(await frame()).toEqual([
      'gw-1  4 workers  redis up  rev 3f9c21  14:07:31Z  this gateway alone',
      '!! The store is away since 14:05:12Z (ECONNREFUSED); onOutage is local',
      '! bolt (pro) is refused since 13:58:00Z, 31/s: day quota used up',
      '1,204/s  refused 37/s (minute 4 day 31 ban 2)  p99 gateway 0.9 ms backend 31 ms',
      'CLIENT  REQ/S  REFUSED/S         MINUTE                   DAY    MEAN    MAX',
      'bolt       31         31  12/300 [    ]  10,000/10,000 [####]       –      –',
      'acme       31          0  12/300 [    ]   8,120/10,000 [### ]  8.2 ms  22 ms',
      'last 10 s by requests (<= 3 missing) · r f l sort · / filter · space pause · q',
    ])
  })

  it.each([
    [{ filter: 'ac' }, /^acme .*\nlast 10 s by requests \(<= 3 missing\) · \/ac · r f l/m],
    [{ filter: 'zz' }, /^Nobody: \/zz$/m],
    [{ typing: 'b' }, /\n\/b$/],
    [{ isPaused: true }, /PAUSED, space · q$/],
    [{ silentSinceMs: Date.parse('2026-11-03T14:07:20Z') }, /^NO LIVE DATA since 14:07:20Z\n1,204/],
    [{ tick: undefined }, /\nThe first whole second is being counted\.\n/],
    [{ top: { ...state.top, clients: [] } }, /^No requests\.$/m],
  ])('of %j says so', async (changed, expected) =>
    expect((await frame(changed)).join('\n')).toMatch(expected),
  )

  it.each([
    [80, 24],
    [60, 24],
    [50, 5],
  ])('fits a terminal of %d columns and %d rows', async (columns, rows) => {
    const lines = await frame({}, columns, rows)
    expect(lines.length).toBeLessThanOrEqual(rows)
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(columns)
  })
})

it.each([1, 7, 1_000])('reads seconds from a stream in pieces of %d characters', async (size) => {
  const written =
    ': hello\n\nevent: tick\ndata: {"ü":1}\n\nevent: tick\r\ndata:{"ü":2}\r\n\r\ndata: {"cu'
  const pieces = written.match(new RegExp(`[^]{1,${size}}`, 'g')) ?? []
  expect(await all(ticksIn(ReadableStream.from(pieces)))).toEqual([{ ü: 1 }, { ü: 2 }])
})
