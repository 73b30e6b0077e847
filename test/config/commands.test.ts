import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { checkCommand } from '../../src/cli/check.ts'
import { keysNewCommand } from '../../src/cli/keys.ts'
import { parseConfigText } from '../../src/config/clients/load.ts'
import { codeOf, listener } from '../support/command-line.ts'
import { temporaryFolder } from '../support/processes.ts'
import { gatewayYaml } from './examples.ts'

const folder = temporaryFolder()

const check = async (text: string) => {
  const file = join(folder, 'gateway.yaml')
  writeFileSync(file, text)
  const { edge, out } = listener()
  const code = await checkCommand(edge, { config: file })
  return { code, lines: out.map((line) => line.replace(file, 'FILE')) }
}

describe('tollgate check', () => {
  it('says ok, with the revision and what the file holds', async () => {
    const revision = createHash('sha256').update(gatewayYaml).digest('hex').slice(0, 12)
    const held = '5 clients, 4 routes, store: embedded (data/tollgate.db)'
    const lines = [`FILE: ok, revision ${revision}, ${held}`]
    expect(await check(gatewayYaml)).toEqual({ code: 0, lines })
  })

  it('refuses demo keys on an open listener, as a start would', async () => {
    const { code, lines } = await check(gatewayYaml.replace('127.0.0.1:8080', '0.0.0.0:8080'))
    expect(code).toBe(2)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatch(/^FILE:1:1 server\.listen: opens public demo keys .*; remove them/)
  })
})

describe('tollgate check, of a file that is taken', () => {
  it('prints warnings, each with its place, and still says ok', async () => {
    const { code, lines } = await check('server: { trustedProxies: [0.0.0.0/0] }\n')
    expect(code).toBe(0)
    expect(lines).toHaveLength(3)
    expect(lines[0]).toMatch(/^FILE:1:1 clients: warning: has no clients, .*; add one with/)
    expect(lines[1]).toMatch(/^FILE:1:28 server\.trustedProxies\[0\]: warning: "0\.0\.0\.0\/0" /)
    expect(lines[2]).toMatch(/^FILE: ok, revision /)
  })

  it.each([
    ['""', 'embedded (data/tollgate.db)'],
    ['redis://user:hidden@cache:7000/2', 'Redis at cache:7000'],
    ['rediss://:hidden@[::1]', 'Redis at [::1]:6379'],
    ['{ cluster: [a:6379, b:6380], password: hidden }', 'Redis at cluster a:6379, b:6380'],
    [
      '{ sentinels: [a:26379, b:26379], name: main, sentinelPassword: hidden }',
      'Redis at master main of the sentinels a:26379, b:26379',
    ],
  ])('says which store %s is, never a password', async (redis, words) => {
    const value = redis.startsWith('{') || redis === '""' ? redis : `"${redis}"`
    const { lines } = await check(`clients: [{ id: a, plan: free }]\nstore: { redis: ${value} }\n`)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatch(/1 client, 0 routes, store: /)
    expect(lines[0]?.split('store: ')[1]).toBe(words)
  })
})

describe('tollgate check, of files that a configuration names', () => {
  const jwt = (file: string) =>
    `jwt: { issuer: a, audience: a, algorithms: [RS256], jwksFile: ${file} }\n`
  const tls = (keys: string) =>
    `clients: [{ id: a, plan: free }]\nstore: { redis: { url: "rediss://cache", tls: { ${keys} } } }\n`

  it('refuses those that cannot be read, all at once and with their places', async () => {
    const named = '{ ca: nowhere.pem, cert: ./nowhere.crt, key: /nowhere/gate.key }'
    const text = `${jwt('nowhere.json')}store: { redis: { url: "rediss://cache", tls: ${named} } }\n`
    const { code, lines } = await check(text)
    expect(code).toBe(2)
    const fault = 'cannot be read (ENOENT); check its name and permissions'
    expect(lines).toEqual([
      `FILE:1:63 jwt.jwksFile: "${folder}/nowhere.json" ${fault}`,
      `FILE:2:53 store.redis.tls.ca: "${folder}/nowhere.pem" ${fault}`,
      `FILE:2:72 store.redis.tls.cert: "${folder}/nowhere.crt" ${fault}`,
      `FILE:2:92 store.redis.tls.key: "/nowhere/gate.key" ${fault}`,
    ])
  })

  it('says nothing of files that stand under keys which are none', async () => {
    const { lines } = await check('server: { tls: { ca: nowhere.pem } }\n')
    expect(lines.filter((line) => line.includes('server.tls.ca'))).toEqual([
      expect.stringContaining('is not a known key'),
    ])
  })

  it('finds them from the folder of the file that names them', async () => {
    for (const name of ['keys.json', 'ca.pem']) writeFileSync(join(folder, name), '{}')
    expect((await check(jwt('keys.json'))).code).toBe(0)
    expect((await check(jwt(join(folder, 'keys.json')))).code).toBe(0)
    expect((await check(tls('ca: ./ca.pem'))).lines[0]).toContain(
      `store.redis.tls.ca: ${folder}/ca.pem cannot be used (not PEM); `,
    )
    const { jwt: parsed } = parseConfigText(jwt('keys.json'), { file: '/etc/a/b.yaml', env: {} })
    expect(parsed?.jwksFile).toBe('/etc/a/keys.json')
  })
})

const keysNew = async (given: { client?: string; plan?: string; expires?: string }) => {
  const { edge, out, said } = listener()
  const options = { client: 'acme', plan: 'pro', ...given }
  const code = await codeOf(edge, () => keysNewCommand(edge, options))
  return { code, lines: [...out, ...said], key: out.find((line) => line.startsWith('tg_')) ?? '' }
}

describe('tollgate keys new', () => {
  it('prints a key once, and YAML that lets exactly this key in', async () => {
    const { code, lines, key } = await keysNew({ expires: '2099-06-30' })
    expect(code).toBe(0)
    expect(key).toMatch(/^tg_[A-Za-z0-9_-]{43}$/)
    expect(lines.filter((line) => line.includes(key))).toEqual([key])
    const yaml = lines.slice(lines.indexOf(key) + 1).join('\n')
    const { clients } = parseConfigText(yaml, { file: 'FILE', env: {} })
    const id = expect.stringMatching(/^acme-[0-9a-f]{6}$/) as string
    const sha256 = createHash('sha256').update(key).digest('hex')
    const keys = [{ id, sha256, expiresAtMs: Date.UTC(2099, 5, 30) }]
    const limits = { perMinute: 300, perDay: 10_000 }
    expect([...clients]).toEqual([{ id: 'acme', plan: 'pro', limits, concurrent: 32, keys }])
  })

  it.each(['012345', '1e3', 'true', 'a:b', 'a@b.example', 'x'.repeat(128)])(
    'prints YAML that keeps the client id %s as it is',
    async (client) => {
      const { lines, key } = await keysNew({ client })
      const yaml = lines.slice(lines.indexOf(key) + 1).join('\n')
      expect(parseConfigText(yaml, { file: 'FILE', env: {} }).clients.get(client)).toBeDefined()
    },
  )

  it.each([
    [{ client: '' }, '--client is not an id; '],
    [{ client: 'a\nplan: x' }, '--client is not an id; '],
    [{ plan: '1st' }, '--plan is not a name; '],
    [{ plan: 'constructor' }, '--plan is a reserved name; '],
    [{ expires: 'tomorrow' }, '--expires is not a date; '],
    [{ expires: '2027-02-29' }, '--expires is not a date; '],
    [{ expires: '2026-01-01' }, '--expires is in the past; '],
  ])('refuses %j with exit code 2 and makes no key', async (given, message) => {
    const { code, lines, key } = await keysNew(given)
    expect(code).toBe(2)
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatch(new RegExp(`^tollgate: ${message}`))
    expect(key).toBe('')
  })
})
