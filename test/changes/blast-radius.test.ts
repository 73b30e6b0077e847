import { describe, expect, it } from 'vitest'
import { parseConfigText } from '../../src/clients/load.ts'
import {
  blastRadius,
  blastRadiusInSteps,
  type BlastRadius,
} from '../../src/changes/blast-radius.ts'
import { boundedRadius } from '../../src/changes/reload-outcome.ts'

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
const after = (from: string, to: string): BlastRadius => {
  expect(first.split(from)).toHaveLength(2)
  return blastRadius(config(first), config(first.replace(from, to)))
}

const nothing = {
  clients: { added: [], removed: [], moved: [] },
  limits: { lowered: [], raised: [] },
  keys: { added: [], revoked: [], changed: [] },
  routes: { added: [], removed: [], changed: [] },
  settings: [],
  needsRestart: [],
}
const pro = { perMinute: 300, perDay: 10_000 }
const free = { perMinute: 60, perDay: 1_000 }
const boltKey = { key: 'bolt-1', client: 'bolt' }

describe('the blast radius of a new configuration', () => {
  it.each<[string, string, string, Partial<BlastRadius>]>([
    ['a comment', 'routes:', '# why\nroutes:', {}],
    [
      'a client less',
      `  - ${bolt}\n`,
      '',
      {
        clients: { ...nothing.clients, removed: ['bolt'] },
        keys: { ...nothing.keys, revoked: [boltKey] },
      },
    ],
    [
      'a client more',
      `  - ${bolt}`,
      `  - ${bolt}\n  - { id: coro, plan: free }`,
      {
        clients: { ...nothing.clients, added: ['coro'] },
      },
    ],
    [
      'another plan',
      'id: bolt, plan: pro',
      'id: bolt, plan: free',
      {
        clients: { ...nothing.clients, moved: [{ client: 'bolt', from: 'pro', to: 'free' }] },
        limits: { lowered: [{ client: 'bolt', from: pro, to: free }], raised: [] },
      },
    ],
    [
      'a limit of a plan lowered, the other raised',
      '300, perDay: 10000',
      '200, perDay: 20000',
      {
        limits: {
          lowered: [{ client: 'bolt', from: pro, to: { perMinute: 200, perDay: 20_000 } }],
          raised: [],
        },
        settings: ['plans.pro'],
      },
    ],
    [
      'a limit raised',
      'perMinute: 60, perDay: 1000 ',
      'perMinute: 60, perDay: 2000 ',
      {
        limits: {
          lowered: [],
          raised: [{ client: 'acme', from: free, to: { perMinute: 60, perDay: 2_000 } }],
        },
        settings: ['plans.free'],
      },
    ],
    [
      'limits that are only tried',
      'perMinute: 60, perDay: 1000 ',
      'perMinute: 60, perDay: 1000, shadow: { perMinute: 1, perDay: 2 } ',
      { settings: ['plans.free.shadow'] },
    ],
    [
      'another secret under the same id',
      digest('b'),
      digest('c'),
      {
        keys: { added: [boltKey], revoked: [boltKey], changed: [] },
      },
    ],
    [
      'another expiry',
      '2031-01-01',
      '2032-01-01',
      {
        keys: { ...nothing.keys, changed: [boltKey] },
      },
    ],
    [
      'a route changed',
      'GET /pets/{id}',
      'GET /animals/{id}',
      {
        routes: { ...nothing.routes, changed: ['getPet'] },
      },
    ],
    [
      'a route renamed',
      'name: addPet',
      'name: makePet',
      {
        routes: { added: ['makePet'], removed: ['addPet'], changed: [] },
      },
    ],
    [
      'settings',
      'routes:',
      'unmatched: reject\nupstream: { connectionAge: 5m, eject: { failures: 6 } }\nroutes:',
      {
        settings: ['unmatched', 'upstream.connectionAge', 'upstream.eject'],
      },
    ],
    [
      'what is taken at a start only',
      'routes:',
      'server: { listen: 127.0.0.1:81, basePath: /v2 }\nadmin: { listen: 127.0.0.1:91 }\nstore: { timeout: 50ms }\nroutes:',
      {
        settings: ['admin.listen', 'server.basePath', 'server.listen', 'store.timeout'],
        needsRestart: ['admin.listen', 'server.listen', 'store.timeout'],
      },
    ],
  ])('names %s', (_, from, to, expected) => {
    const { from: was, to: is, ...radius } = after(from, to)
    expect(radius).toEqual({ ...nothing, ...expected })
    expect(was).not.toBe(is)
  })

  it('names a key that went to another client with both', () => {
    const moved = first
      .replace(`, keys: [{ id: bolt-1, sha256: ${digest('b')}, expires: 2031-01-01 }]`, '')
      .replace(`${digest('a')} }`, `${digest('a')} }, { id: bolt-1, sha256: ${digest('b')} }`)
    expect(blastRadius(config(first), config(moved)).keys).toEqual({
      added: [{ key: 'bolt-1', client: 'acme' }],
      revoked: [boltKey],
      changed: [],
    })
  })

  it('does not look at the order of clients, and is mirrored by the way back', () => {
    const [one, other] = [
      config(first),
      config(first.replace(`  - ${bolt}\n`, '').replace('clients:\n', `clients:\n  - ${bolt}\n`)),
    ]
    expect(blastRadius(one, other)).toEqual({ ...nothing, from: one.revision, to: other.revision })
    const there = after('300, perDay: 10000', '200, perDay: 9000')
    const back = blastRadius(
      config(first.replace('300, perDay: 10000', '200, perDay: 9000')),
      config(first),
    )
    expect(back.limits.raised).toEqual(
      there.limits.lowered.map(({ client, from, to }) => ({ client, from: to, to: from })),
    )
  })

  it('keeps no more names of clients and keys than are wished for, and counts all', () => {
    const keys = (letters: string) =>
      Array.from(letters, (letter) => `{ id: ${letter}1, sha256: ${digest(letter)} }`).join()
    const having = (letters: string) =>
      config(
        first.replace(
          digest('a'),
          `${digest('a')} }, ${keys(letters)}, { id: x, sha256: ${digest('9')}`,
        ),
      )
    const steps = blastRadiusInSteps(having('cd'), having('cef0'), 2)
    let step = steps.next()
    while (step.done !== true) step = steps.next()
    const named = (...ids: string[]) => ids.map((key) => ({ key, client: 'acme' }))
    expect(step.value).toMatchObject({
      keys: { added: named('e1', 'f1'), revoked: named('d1') },
      counts: { 'keys.added': 3, 'keys.revoked': 1 },
    })
    expect(boundedRadius(step.value, 1)).toMatchObject({
      keys: { added: named('e1'), revoked: named('d1') },
      counts: { 'keys.added': 3, 'keys.revoked': 1 },
    })
  })
})
