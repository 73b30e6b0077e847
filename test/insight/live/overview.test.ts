/** What needs attention, in which order and words, and what has changed since the second before. */
import { describe, expect, it } from 'vitest'
import type { Ban } from '../../../src/insight/api/live.ts'
import type { BanRecord } from '../../../src/state/bans.ts'
import type { BackendHealth } from '../../../src/core/backends/backend.ts'
import { parseConfigText } from '../../../src/config/clients/load.ts'
import { Live } from '../../../src/insight/live/live.ts'
import { createAdmittedToday, attention, overview } from '../../../src/insight/live/overview.ts'
import type { OverviewParts } from '../../../src/insight/live/overview.ts'
import { sha256 } from '../../support/gateway.ts'
import { row, second } from './rows.ts'

const NOW = Date.parse('2026-11-03T14:07:31Z')
const now = NOW / 1000
const key = (id: string, expires = '') => `{ id: ${id}, sha256: ${sha256(id)}${expires} }`
// Clients that are not configured come by tokens, of a plan that there is.
const clients = `jwt: { jwksUri: "https://id.example/keys", issuer: "https://id.example/", audience: pets, algorithms: [ES256] }
clients:
  - { id: acme, plan: pro, keys: [${key('acme-1')}, ${key('acme-3', ', expires: 2026-11-05')}] }
  - { id: bolt, plan: pro, keys: [${key('bolt-1', ', expires: 2026-11-08')}] }
  - { id: cash, plan: free, keys: [${key('cash-1', ', expires: 2027-01-01')}] }`
const config = parseConfigText(clients, { file: 'F', env: {} })
const ban: Ban = { key: '', client: 'acme', since: 'a', until: 'b', reason: null, by: 'strikes' }
const backend = (name: string, state: BackendHealth['state'] = 'ejected'): BackendHealth => ({
  name,
  state,
  fault: state === 'up' ? undefined : '5 connect time-outs',
  since: state === 'up' ? undefined : '2026-11-03T14:06:50.000Z',
  isUsable: true,
})

const well = { available: true, cause: undefined, refusal: undefined }
function partsOf(more: Partial<OverviewParts> = {}): OverviewParts {
  const live = new Live()
  live.add(second(now - 1))
  live.close(now - 1)
  return {
    gateway: 'gw-1',
    version: '1',
    live,
    workers: () => ({ listening: 1, wanted: 1 }),
    admittedToday: () => Promise.resolve(null),
    store: () => well,
    backends: () => [],
    reloads: { config, takenAtMs: 0, counts: { refused: 0 }, fault: undefined },
    unsavedSeconds: () => 0,
    logFault: () => undefined,
    listBans: () => Promise.resolve([]),
    ...more,
  }
}
const refusing = (parts: OverviewParts, clients: number): OverviewParts => {
  const rows = Array.from({ length: clients }, (_, at) => row(`c${at}`, { refusedDay: 31 - at }))
  parts.live.clients.add(now - 5, [...rows, row('gone', { plan: 'over', refusedDay: 99 })])
  return parts
}
const outdated = (parts: OverviewParts): OverviewParts => {
  parts.live.changes.outdated = config
  return parts
}
/** Routes that repeat the base path, and two keys that end soon. */
const mistaken = (count: number) => {
  const routes = Array.from(
    { length: count },
    (_, at) => `{ name: r${at}, match: GET /v1/a;v=${at} }`,
  )
  const text = `server: { basePath: /v1 }\nroutes: [${routes.join()}]\n${clients}`
  return partsOf({
    reloads: { ...partsOf().reloads, config: parseConfigText(text, { file: 'F', env: {} }) },
  })
}
const mistake = 'routes[0].match repeats server.basePath, so it matches /v1/v1/a;v=0 only'
const texts = (parts: OverviewParts) => attention(parts, NOW).map(({ text }) => text)
const keyLine = 'Key acme-3 of acme expires in 1 d 9 h, 2026-11-05 00:00Z; 1 more within 7 days'

describe('attention', () => {
  const away = { ...well, available: false }
  it.each<[OverviewParts, string]>([
    [
      partsOf({ store: () => ({ ...away, cause: 'timeout' }) }),
      'The store is away (timeout); onOutage is local',
    ],
    [
      partsOf({ store: () => ({ ...away, refusal: 'wrong password' }) }),
      'The store refuses this gateway: wrong password',
    ],
    [
      partsOf({ backends: () => [backend('a', 'up'), backend('b:1')] }),
      'Backend b:1 (1 of 2 is not up) is ejected since 14:06:50Z: 5 connect time-outs',
    ],
    [
      partsOf({ reloads: { ...partsOf().reloads, fault: 'F:1:1 plans: none' } }),
      'The latest reload was refused: F:1:1 plans: none',
    ],
    [
      outdated(partsOf()),
      `The config on disk differs from revision ${config.revision} in force; compare it, then reload`,
    ],
    [
      outdated(partsOf({ reloads: { ...partsOf().reloads, fault: 'F:1:1: none' } })),
      'The latest reload was refused: F:1:1: none',
    ],
    [refusing(partsOf(), 1), 'c0 (pro) is refused since 14:07:26Z, 3.1/s: day quota used up'],
    [
      partsOf({ unsavedSeconds: () => 6.4 }),
      'Counters were not kept for 6 s; a crash now would forget them',
    ],
    [partsOf(), keyLine],
  ])('says what is wrong, and why: %$', (parts, text) => {
    expect(texts(parts)[0]).toBe(text)
    expect(texts(parts).at(-1)).toBe(keyLine)
  })

  it.each([
    [2, `${mistake}; and 1 more`],
    [1, mistake],
  ])('says last what the configuration most likely gets wrong: %i', (count, text) => {
    expect(texts(mistaken(count))).toEqual([keyLine, text])
  })

  it('says of who is banned that its day is used up too, as the end of the ban will not help it', () => {
    const parts = partsOf()
    const use = { dayUsed: 20, dayLimit: 20, lastUsedMs: NOW }
    parts.live.clients.add(now - 5, [
      row('a', { refusedBan: 5 }),
      row('b', { refusedBan: 10, ...use }),
    ])
    expect(texts(parts).slice(0, 2)).toEqual([
      expect.stringMatching(/^b .*: a key is banned, and day quota used up$/),
      expect.stringMatching(/^a .*: a key is banned$/),
    ])
  })

  it('says when nothing was heard for long', () => {
    const [line] = attention(partsOf(), NOW + 5_000)
    expect(line).toMatchObject({ kind: 'stale', since: '2026-11-03T14:07:31.000Z' })
  })

  it('has five lines, the worst first, and room for a client whatever else is wrong', () => {
    const all = partsOf({
      store: () => away,
      backends: () => ['a', 'b', 'c', 'd'].map((name) => backend(name)),
      unsavedSeconds: () => 60,
    })
    const lines = attention(refusing(all, 9), NOW)
    const kinds = lines.map(({ kind, severity }) => `${kind} ${severity}`)
    expect(kinds.join()).toBe('store bad,backend bad,backend bad,unsaved bad,client warn')
    expect(lines[2]?.text).toMatch(/; and 2 more$/)
    expect(lines.at(-1)?.text).toMatch(/; so are c1 and 7 more$/)
    const two = { ...all, live: partsOf().live }
    expect(attention(refusing(two, 2), NOW).at(-1)?.text).toMatch(/^c0 .*; so is c1$/)
    const one = { backends: () => [backend('a'), backend('b', 'up')], logFault: () => 'the log' }
    const first = attention(refusing(outdated(partsOf(one)), 9), NOW).map(({ kind }) => kind)
    expect(first.join()).toBe('backend,log,reload,client,key')
    const subjects = attention(refusing(partsOf(), 9), NOW).map(({ subject }) => subject)
    expect(subjects.join()).toBe('c0,c1,c2,c3,acme-3')
  })

  it('is there when bans cannot be read, and numbers that are not known are null', async () => {
    const away = await overview(partsOf({ listBans: () => Promise.reject(new Error('away')) }))
    expect(away.counts).toMatchObject({ clients: 3, keys: 4, bannedKeys: null })
    const unknown = { admittedToday: null, shadowRefused: null, shadowUnjudged: null }
    expect(away.plans[1]).toEqual({ plan: 'pro', clients: 2, over80: 0, ...unknown })
  })
})

describe('what plans have had admitted today', () => {
  it('is summed by plan, read once for all who ask, and not known while the store is away', async () => {
    let reads = 0
    const today = createAdmittedToday(async function* () {
      reads++
      await Promise.resolve()
      yield [row('a')]
      yield [row('b'), row('c', { plan: 'free' })]
    })
    const all = await Promise.all([today(NOW), today(NOW)])
    expect(Object.fromEntries(all[1] ?? [])).toEqual({ pro: 2, free: 1 })
    await today(NOW)
    expect(reads).toBe(1)
    expect(await today(NOW + 86_400_000)).toBe(null)
    // eslint-disable-next-line require-yield
    const away = createAdmittedToday(async function* () {
      await Promise.reject(new Error('away'))
    })
    expect(await away(NOW)).toBe(null)
  })
})

describe('changes', () => {
  it('are told once each: of the store, a backend, a reload, a ban', () => {
    const parts = partsOf()
    const told: [string, unknown][] = []
    const { live } = parts
    live.events.isWanted = () => true
    live.events.publish = (type, data) => void told.push([type, data])
    const all = new Map<string, BanRecord>()
    const banned = (startedMs: number) => ({ startedMs, untilMs: NOW + 60_000, count: 1 })
    const many = (from: number, startedMs: number) => {
      for (let at = from; at < from + 100; at++) all.set(`key-${at}`, banned(startedMs))
    }
    many(0, NOW - 1)
    const shown = (of: string): Ban => ({ ...ban, key: of })
    const look = (more: Partial<OverviewParts>) => {
      live.changes.look({ ...parts, ...more, bans: { all, nowMs: NOW }, shown }, NOW, live.events)
      return told.splice(0)
    }
    expect(look({ backends: () => [backend('a', 'up')] })).toEqual([])
    const away = { store: () => ({ ...well, available: false, cause: 'timeout' }) }
    const at = '2026-11-03T14:07:31.000Z'
    expect(look(away)).toEqual([['store', { at, available: false, cause: 'timeout' }]])
    expect(live.changes.storeAwaySince).toBe(at)
    expect(look({})).toEqual([['store', { at, available: true, cause: null }]])
    expect(look({ backends: () => [backend('a')] })).toEqual([
      ['backend', { at, name: 'a', state: 'ejected', cause: '5 connect time-outs' }],
    ])
    const reloads = { ...parts.reloads, takenAtMs: NOW - 500 }
    expect(look({ reloads })).toMatchObject([['reload', { refused: null }]])
    expect(live.changes.reloads).toEqual([
      { at: '2026-11-03T14:07:30.500Z', revision: config.revision },
    ])
    const refused = { ...reloads, counts: { taken: 1, refused: 1 }, fault: 'why' }
    expect(look({ reloads: refused })).toMatchObject([['reload', { refused: 'why' }]])
    // Read late from a store that was away, and one that has ended.
    many(100, NOW - 300_000)
    all.set('ended', { ...banned(NOW), untilMs: NOW })
    all.set('acme-1', banned(NOW))
    expect(look({ reloads: refused })).toEqual([['ban', shown('acme-1')]])
    expect(look({ reloads: refused })).toEqual([])
    all.set('key-1', banned(NOW + 1))
    expect(look({ reloads: refused })).toEqual([['ban', shown('key-1')]])
  })
})
