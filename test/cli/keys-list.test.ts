import { describe, expect, it } from 'vitest'
import { keysListCommand } from '../../src/cli/keys-list.ts'
import { codeOf, listener } from '../support/command-line.ts'
import { temporaryFile } from '../support/processes.ts'

const DAY_MS = 86_400_000
const inDays = (days: number) =>
  new Date(Math.ceil(Date.now() / 1000) * 1000 + days * DAY_MS).toISOString()
const [past, soon, later] = [inDays(-1), inDays(10), inDays(100)]
const key = (id: string, expires?: string) =>
  `{ id: ${id}, sha256: ${id.charCodeAt(0).toString(16).repeat(32)}${expires === undefined ? '' : `, expires: ${expires}`} }`
const file = temporaryFile(
  'gateway.yaml',
  `clients:
  - { id: acme, plan: pro, keys: [${key('a')}, ${key('b', soon)}] }
  - { id: bolt, plan: free, keys: [${key('c', past)}, ${key('d', later)}] }
`,
)

const list = async (options: Partial<Parameters<typeof keysListCommand>[1]> = {}) => {
  const { edge, ...heard } = listener()
  const code = await codeOf(edge, () => keysListCommand(edge, { config: file, ...options }))
  return { ...heard, code }
}

describe('tollgate keys list', () => {
  it('says of each key whose it is, its plan, when it ends and whether that is soon', async () => {
    const { code, out, said } = await list()
    expect([code, said]).toEqual([0, []])
    expect(out.map((line) => line.split('\t'))).toEqual([
      ['a', 'acme', 'pro', 'never', 'valid'],
      ['b', 'acme', 'pro', soon, 'expiring'],
      ['c', 'bolt', 'free', past, 'expired'],
      ['d', 'bolt', 'free', later, 'valid'],
    ])
  })

  it.each([
    [{}, ['a', 'b', 'c', 'd']],
    [{ expiring: '30d' }, ['b']],
    [{ client: 'nobody' }, []],
  ])('lists of %j, as JSON, %j', async (options, expected) => {
    const { out } = await list({ ...options, json: true })
    const keys = JSON.parse(out.join('\n')) as Record<string, unknown>[]
    expect(keys.map(({ keyId }) => keyId)).toEqual(expected)
    for (const one of keys)
      expect(Object.keys(one)).toEqual(['keyId', 'client', 'plan', 'expires', 'state'])
  })

  it.each([
    [{ expiring: 'soon' }, /^tollgate: --expiring is not a duration; /],
    [{ client: 'a b' }, /^tollgate: --client is not an id; /],
    [{ config: '/nowhere.yaml' }, /^\/nowhere\.yaml:1:1 \(file\): cannot be read \(ENOENT\)/],
  ])('refuses %j', async (options, message) => {
    const { code, out, said } = await list(options)
    expect([code, out]).toEqual([2, []])
    expect(said[0]).toMatch(message)
  })
})
