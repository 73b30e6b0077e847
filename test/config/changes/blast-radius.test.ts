import { describe, expect, it } from 'vitest'
import { parseConfigText } from '../../../src/config/clients/load.ts'
import { blastRadius, shortened } from '../../../src/config/changes/blast-radius.ts'
import type { BlastRadius } from '../../../src/config/changes/blast-radius.ts'
import { inWords, plannedInWords } from '../../../src/config/changes/radius-in-words.ts'

const digest = (character: string): string => character.repeat(64)
const bolt = `{ id: bolt, plan: pro, keys: [{ id: bolt-1, sha256: ${digest('b')}, expires: 2031-01-01 }] }`
const first = `
plans: { free: { perMinute: 60, perDay: 1000 }, pro: { perMinute: 300, perDay: 10000 } }
clients:
  - { id: acme, plan: free, keys: [{ id: acme-1, sha256: ${digest('a')} }] }
  - ${bolt}
routes: [{ name: getPet, match: 'GET /pets/{id}' }, { name: addPet, match: 'POST /pets' }]
`
const config = (text: string) =>
  parseConfigText(text, { file: 'gateway.yaml', env: {}, nowMs: Date.UTC(2030, 0, 1) })

/** Of the first file with one text in it replaced. */
const after = async (from: string, to: string): Promise<BlastRadius> => {
  expect(first.split(from)).toHaveLength(2)
  return blastRadius(config(first), config(first.replace(from, to)))
}

/** What it names, by path; empty lists left out. */
const named = (whole: BlastRadius) => {
  const { from: _from, to: _to, ...radius } = whole
  const lists = Object.entries(radius).flatMap(([name, part]) =>
    Array.isArray(part)
      ? [[name, part] as const]
      : Object.entries(part).map(([inner, list]) => [`${name}.${inner}`, list] as const),
  )
  return Object.fromEntries(lists.filter(([, list]) => list.length > 0))
}
const pro = { perMinute: 300, perDay: 10_000 }
const boltKey = { key: 'bolt-1', client: 'bolt' }

describe('the blast radius of a new configuration', () => {
  const location = 'gateway.yaml:2'
  const lowered = (to: object) => [{ client: 'bolt', plan: 'pro', from: pro, to, location }]
  const restart = ['admin.listen', 'server.listen', 'store.redis', 'store.timeout']
  it.each<[string, string, string, Record<string, unknown[]>]>([
    ['a comment', 'routes:', '# why\nroutes:', {}],
    [
      'a client less',
      `  - ${bolt}\n`,
      '',
      { 'clients.removed': ['bolt'], 'keys.revoked': [boltKey] },
    ],
    [
      'a limit of a plan lowered, the other raised',
      '300, perDay: 10000',
      '200, perDay: 20000',
      { 'limits.lowered': lowered({ perMinute: 200, perDay: 20_000 }), settings: ['plans.pro'] },
    ],
    [
      'limits that are only tried',
      'perMinute: 60, perDay: 1000 ',
      'perMinute: 60, perDay: 1000, shadow: { perMinute: 1, perDay: 2 } ',
      { settings: ['plans.free.shadow'] },
    ],
    ['another expiry', '2031-01-01', '2032-01-01', { 'keys.changed': [boltKey] }],
    ['a route changed', 'GET /pets/{id}', 'GET /animals/{id}', { 'routes.changed': ['getPet'] }],
    [
      'a route renamed',
      'name: addPet',
      'name: makePet',
      { 'routes.added': ['makePet'], 'routes.removed': ['addPet'] },
    ],
    [
      'what is taken at a start only',
      'routes:',
      'server: { listen: 127.0.0.1:81, basePath: /v2 }\nadmin: { listen: 127.0.0.1:91 }\nstore: { timeout: 50ms, redis: redis://h }\nroutes:',
      { settings: restart.toSpliced(1, 0, 'server.basePath'), needsRestart: restart },
    ],
  ])('names %s', async (_, from, to, expected) => {
    const radius = await after(from, to)
    expect(named(radius)).toEqual(expected)
    expect(radius.from).not.toBe(radius.to)
  })

  it('names a key that went to another client with both', async () => {
    const moved = first
      .replace(`, keys: [{ id: bolt-1, sha256: ${digest('b')}, expires: 2031-01-01 }]`, '')
      .replace(`${digest('a')} }`, `${digest('a')} }, { id: bolt-1, sha256: ${digest('b')} }`)
    expect(named(await blastRadius(config(first), config(moved)))).toEqual({
      'keys.added': [{ key: 'bolt-1', client: 'acme' }],
      'keys.revoked': [boltKey],
    })
  })

  it('does not look at the order of clients, and is mirrored by the way back', async () => {
    const turned = first
      .replace(`  - ${bolt}\n`, '')
      .replace('clients:\n', `clients:\n  - ${bolt}\n`)
    const [one, other] = [config(first), config(turned)]
    const radius = await blastRadius(one, other)
    expect([named(radius), radius.from, radius.to]).toEqual([{}, one.revision, other.revision])
    const lower = first.replace('300, perDay: 10000', '200, perDay: 9000')
    const there = await blastRadius(one, config(lower))
    const back = await blastRadius(config(lower), one)
    expect(back.limits.raised).toEqual(
      there.limits.lowered.map(({ from, to, ...whose }) => ({ ...whose, from: to, to: from })),
    )
  })

  it('keeps no more names of clients and keys than are wished for, and counts all', async () => {
    const keys = (letters: string) =>
      Array.from(letters, (letter) => `{ id: ${letter}1, sha256: ${digest(letter)} }`).join()
    const having = (letters: string) => {
      const more = `${digest('a')} }, ${keys(letters)}, { id: x, sha256: ${digest('9')}`
      return config(first.replace(digest('a'), more))
    }
    const all = await blastRadius(having('cd'), having('cef0'), 2)
    const of = (...ids: string[]) => ids.map((key) => ({ key, client: 'acme' }))
    const counts = { 'keys.added': 3, 'keys.revoked': 1 }
    const fewer = shortened(all, 1)
    expect(all).toMatchObject({ keys: { added: of('e1', 'f1'), revoked: of('d1') }, counts })
    expect(fewer).toMatchObject({ keys: { added: of('e1'), revoked: of('d1') }, counts })
  })
})

describe('the blast radius in words', async () => {
  const ids = Array.from({ length: 12 }, (_, at) => `c${at}`)
  const listed = ids.map((id) => `  - { id: ${id}, plan: free }\n`).join('')
  const most = 'perMinute: 60, perDay: 1000000000000 '
  const many = first
    .replace('clients:\n', `clients:\n${listed}`)
    .replace('perMinute: 60, perDay: 1000 ', most)
  const lower = many.replace(most, 'perMinute: 60, perDay: 500 ')
  const radius = await blastRadius(config(many), config(lower))

  it('has a row for each plan and change, and names those who are nearest first', async () => {
    const [, ...lines] = inWords(radius, ['acme', 'c11', 'other'])
    expect(lines).toEqual([
      'v free  perDay unlimited to 500  13 clients  gateway.yaml:2',
      '    acme, c11, c0, c1, c2, c3, c4, c5, c6, c7, and 3 more',
      '~ 1 setting: plans.free',
    ])
  })

  it('counts the clients that a cut list lacks', async () => {
    const { length } = radius.limits.lowered
    const cut = shortened({ ...radius, counts: { 'limits.lowered': length } }, 2)
    expect(inWords(cut).slice(1, 4)).toEqual([
      'v free  perDay unlimited to 500  2 clients  gateway.yaml:2',
      '    c0, c1',
      'v and 11 clients more, not listed',
    ])
  })

  it('says before anything is taken that nothing needs a restart', async () => {
    expect(plannedInWords(radius).at(-1)).toBe('Nothing needs a restart.')
    const restart = plannedInWords(await after('routes:', 'store: { timeout: 50ms }\nroutes:'))
    expect(restart.at(-1)).toMatch(/^! 1 setting taken at a start only, .*: store\.timeout$/)
    expect(plannedInWords(await blastRadius(config(first), config(first)))).toHaveLength(1)
  })
})
