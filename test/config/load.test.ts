import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { loadConfig, parseConfigText } from '../../src/config/clients/load.ts'
import { readYaml } from '../../src/config/document.ts'
import { ConfigError } from '../../src/config/problems.ts'
import { temporaryFolder } from '../support/processes.ts'

const folder = temporaryFolder()

const parse = (text: string, env: Record<string, string | undefined> = {}) =>
  parseConfigText(text, { file: 'FILE', env })

const complaints = async (work: () => unknown): Promise<string[]> => {
  try {
    await work()
  } catch (error) {
    if (error instanceof ConfigError) return error.format()
    throw error
  }
  throw new Error('nothing was refused')
}

describe('reading a file', () => {
  it('names the configuration by the first 12 hex digits of the SHA-256 of the text, whatever the environment says', async () => {
    const text = 'store: { prefix: "${PREFIX}" }\n'
    const expected = createHash('sha256').update(text).digest('hex').slice(0, 12)
    const file = join(folder, 'a.yaml')
    writeFileSync(file, text)
    expect((await loadConfig(file, { PREFIX: 'one' })).revision).toBe(expected)
    expect((await loadConfig(file, { PREFIX: 'two' })).revision).toBe(expected)
    expect((await loadConfig(file, { PREFIX: 'two' })).store.prefix).toBe('two')
  })

  it('refuses a file that is not there, a directory, and bytes that are not UTF-8, as problems with a place', async () => {
    const [missing, binary] = [join(folder, 'missing.yaml'), join(folder, 'binary.yaml')]
    writeFileSync(binary, Buffer.from([0x61, 0x3a, 0x20, 0xff, 0xfe]))
    for (const [file, fault] of [
      [missing, 'cannot be read (ENOENT); check its name and permissions'],
      [folder, 'cannot be read (EISDIR); check its name and permissions'],
      [binary, 'is not UTF-8 text; save it in that encoding'],
    ] as const)
      expect(await complaints(() => loadConfig(file, {}))).toEqual([`${file}:1:1 (file): ${fault}`])
  })

  it('takes a byte order mark and Windows line ends', () => {
    expect(parse('\uFEFFunmatched: reject\r\nlog:\r\n  level: warn\r\n').log.level).toBe('warn')
  })

  it('takes a thousand plans, and refuses more', async () => {
    const plans = (count: number): string =>
      `plans:\n${Array.from({ length: count }, (_, n) => `  p${n}: { perMinute: 1, perDay: 1 }\n`).join('')}`
    expect(parse(plans(1_000)).plans.size).toBe(1_000)
    expect((await complaints(() => parse(plans(1_001))))[0]).toMatch(/has more than 1000 plans/)
  })

  it('looks for no more than a hundred problems of a kind, and tells no more than a hundred in all', async () => {
    const many = (each: string, count = 1_000): string => Array(count).fill(each).join(', ')
    expect(readYaml(`a: [${many('"${NOTHING}"')}]`, {}).faults).toHaveLength(100)
    expect(await complaints(() => parse(`clients: [${many('a')}]`))).toHaveLength(101)
    const lines = await complaints(() =>
      parse(`trustedProxies: [${many('"${NOTHING}"', 60)}]\nclients: [${many('a', 60)}]`),
    )
    expect(lines).toHaveLength(101)
    expect(lines.at(-1)).toMatch('the search ended at 100')
  })

  it('refuses nesting that would exhaust the stack', async () => {
    expect(await complaints(() => parse('['.repeat(20_000)))).not.toEqual([])
    expect(await complaints(() => parse('a:\n' + ' - '.repeat(5_000)))).not.toEqual([])
  })
})

describe('the environment', () => {
  it('gives a value, a default for one that is absent or empty, and stays out of everything else', async () => {
    const text = 'store: { prefix: "${A:-x}-${B:-y}-${C}" }'
    expect(parse(text, { A: 'a', B: '', C: 'c' }).store.prefix).toBe('a-y-c')
    expect((await complaints(() => parse('${A}: forward', { A: 'unmatched' })))[0]).toContain(
      'is not a known key',
    )
  })

  it('is read as the key wants it: a number is a number, and text cannot become structure', () => {
    expect(parse('anonymous: { perMinute: "${N}" }', { N: '7' }).anonymous.perMinute).toBe(7)
    expect(parse('anonymous:\n  perMinute: ${N}', { N: '7' }).anonymous.perMinute).toBe(7)
    const value = '[a, b]\nunmatched: reject # ${HOME} *alias'
    const config = parse(
      'jwt: { issuer: "${I}", audience: a, algorithms: [RS256], jwksFile: f }\n',
      { I: value.replace('\n', ' '), HOME: 'not put in' },
    )
    expect(config.jwt?.issuer).toBe(value.replace('\n', ' '))
    expect(config.unmatched).toBe('forward')
  })

  it('does not see what every object has', async () => {
    expect(await complaints(() => parse('unmatched: ${toString}', {}))).toEqual([
      'FILE:1:12 unmatched: needs the environment variable toString, which is not set; set it or write ${toString:-default}',
    ])
  })

  it('keeps $${ as a plain ${', () => {
    const text = 'jwt: { issuer: "$${A}", audience: a, algorithms: [RS256], jwksFile: f }'
    expect(parse(text, { A: 'a' }).jwt?.issuer).toBe('${A}')
  })
})

describe('values', () => {
  it('keep the exact text of ids', () => {
    const digest = (digit: string) => digit.repeat(64)
    const { clients } = parse(`
clients:
  - { id: 012345, plan: free, keys: [{ id: 1e3, sha256: ${digest('0')} }, { id: 0x10, sha256: ${digest('A')} }] }
  - { id: true, plan: free }
`)
    expect([...clients].map(({ id }) => id)).toEqual(['012345', 'true'])
    expect([...clients][0]?.keys).toEqual([
      { id: '1e3', sha256: digest('0'), expiresAtMs: undefined },
      { id: '0x10', sha256: digest('a'), expiresAtMs: undefined },
    ])
  })

  it.each([
    ['2027-06-30', '2027-06-30T00:00:00.000Z'],
    ['2027-06-30T12:00:00Z', '2027-06-30T12:00:00.000Z'],
    ['2027-06-30T12:00+02:00', '2027-06-30T10:00:00.000Z'],
    ['2028-02-29T00:00:00.5-01:30', '2028-02-29T01:30:00.500Z'],
  ])('read the date %s as %s', (text, expected) => {
    const config = parse(`routes: [{ name: a, match: GET /a, deprecated: { since: "${text}" } }]`)
    expect(new Date(config.routes[0]?.deprecated?.sinceMs ?? 0).toISOString()).toBe(expected)
  })

  it.each([
    ['127.0.0.1:0', { host: '127.0.0.1', port: 0 }],
    ['"[::1]:8080"', { host: '::1', port: 8080 }],
    ['"[0:0:0:0:0:0:0:1]:8080"', { host: '::1', port: 8080 }],
    ['LocalHost:65535', { host: 'localhost', port: 65_535 }],
  ])('read the address %s', (text, expected) => {
    expect(parse(`server: { listen: ${text} }`).server.listen).toEqual(expected)
  })

  it('let two listeners ask for free ports, but not share one address', async () => {
    const listeners = (open: string, admin: string) =>
      `server: { listen: "${open}" }\nadmin: { listen: "${admin}", tokenSha256: ${'ab'.repeat(32)} }`
    expect(parse(listeners('127.0.0.1:0', '127.0.0.1:0')).admin.listen.port).toBe(0)
    expect(parse(listeners('127.0.0.1:80', '127.0.0.2:80')).admin.listen.port).toBe(80)
    expect(await complaints(() => parse(listeners('localhost:80', '127.0.0.1:80')))).toHaveLength(1)
    expect(await complaints(() => parse(listeners('127.0.0.1:80', '[::]:80')))).toHaveLength(1)
  })

  it('read a route with everything', () => {
    const { routes } = parse(`
routes:
  - name: live
    match: GET /live/{channel}
    websocket: true
    stability: experimental
    timeouts: { response: 250ms }
    deprecated: { since: 2026-01-01, successor: https://x.example/a, link: https://x.example/b }
`)
    const links = { successor: 'https://x.example/a', link: 'https://x.example/b' }
    const times = { sinceMs: Date.UTC(2026, 0, 1), sunsetMs: undefined, brownouts: [] }
    const match = { name: 'live', method: 'GET', path: '/live/{channel}', websocket: true }
    const rest = { stability: 'experimental', responseTimeoutMs: 250 }
    const deprecated = { ...times, ...links, afterSunset: 'announce' }
    expect(routes).toEqual([{ ...match, ...rest, deprecated }])
  })

  it('tell no secret in a problem', async () => {
    const secret = 'hunter2'
    const lines = await complaints(() =>
      parse(
        `store: { redis: "\${R}", prefix: "\${P}!" }\nserver: { listen: "tg_${secret} x" }\nupstream: { urls: ["http://me:${secret}@a"] }`,
        { R: `http://:${secret}@redis`, P: secret },
      ),
    )
    expect(lines).toHaveLength(4)
    expect(lines.join('\n')).not.toContain(secret)
  })
})
