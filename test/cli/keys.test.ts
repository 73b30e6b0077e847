import { chmodSync, existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs'
import { statSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { keysNewCommand, keysRevokeCommand, keysRotateCommand } from '../../src/cli/keys.ts'
import { rewriteFile } from '../../src/cli/key-files/rewrite-file.ts'
import { loadConfig, parseConfigText } from '../../src/config/clients/load.ts'
import { codeOf, listener } from '../support/command-line.ts'
import { sha256 } from '../support/gateway.ts'
import { temporaryFile, temporaryFolder } from '../support/processes.ts'

const CONFIG = `# kept
clients:
  - id: acme # the first
    plan: pro
    keys:
      - { id: acme-1, sha256: ${'a'.repeat(64)} }
unmatched: \${UNMATCHED:-forward}
`
const LINES = `{"id":"acme","plan":"gold","keys":[{"id":"acme-1","sha256":"${'a'.repeat(64)}"}]}\n`

const bolt = { client: 'bolt', plan: 'gold' }

const ran = async <Options>(
  command: (edge: ReturnType<typeof listener>['edge'], options: Options) => Promise<void>,
  options: Options,
) => {
  const { edge, ...heard } = listener()
  return { ...heard, code: await codeOf(edge, () => command(edge, options)) }
}
const newKey = (options: Parameters<typeof keysNewCommand>[1]) => ran(keysNewCommand, options)
const refused = async (file: string, options: Parameters<typeof keysNewCommand>[1]) => {
  const { code, out, said } = await newKey({ ...options, write: file })
  expect([code, out]).toEqual([2, []])
  return said[0]?.replace(file, 'FILE')
}
const configOf = (file: string) => parseConfigText(readFileSync(file, 'utf8'), { file, env: {} })

describe('tollgate keys new --write', () => {
  it('shows the key alone on stdout, and lets exactly this key into the file', async () => {
    const file = temporaryFile('gateway.yaml', CONFIG)
    const { code, out, said } = await newKey({ client: 'acme', expires: '2099-01-01', write: file })
    expect([code, out.length]).toEqual([0, 1])
    const [key = ''] = out
    expect(key).toMatch(/^tg_[\w-]{43}$/)
    expect(said.join('\n')).not.toContain(key)
    const owned = configOf(file).clients.keyByDigest(sha256(key))
    const expiresAtMs = Date.UTC(2099, 0, 1)
    expect(owned).toMatchObject({ client: { id: 'acme' }, key: { expiresAtMs } })
    expect(readFileSync(file, 'utf8').replace(/\n.*acme-[0-9a-f]{6}.*/, '')).toBe(CONFIG)
    const revoked = { key: owned?.key.id ?? '', write: file }
    await keysRevokeCommand(listener().edge, revoked)
    expect(readFileSync(file, 'utf8')).toBe(CONFIG)
  })

  it('answers in JSON, and with the YAML to paste on stderr where there is no file', async () => {
    for (const write of [temporaryFile('c.jsonl', LINES), undefined]) {
      const { out, said } = await newKey({ ...bolt, json: true, ...(write && { write }) })
      expect(out).toHaveLength(1)
      const told = JSON.parse(out[0] ?? '') as Record<string, unknown>
      expect(told).toEqual({
        key: expect.stringMatching(/^tg_/) as string,
        keyId: expect.stringMatching(/^bolt-[0-9a-f]{6}$/) as string,
        client: 'bolt',
        expires: null,
      })
      const text = write === undefined ? said.join('\n') : readFileSync(write, 'utf8')
      expect(text).toContain(sha256(String(told['key'])))
      expect(text).not.toContain(told['key'])
    }
  })

  it.each<[string, string, Parameters<typeof newKey>[0], RegExp]>([
    ['an unknown plan', CONFIG, bolt, /:8:11 clients\[1\]\.plan: "gold" is not a defined plan; /],
    [
      'one limit',
      CONFIG,
      { ...bolt, perMinute: '9' },
      /^tollgate: --per-minute and --per-day go together; /,
    ],
    [
      'no plan for a new client',
      CONFIG,
      { client: 'bolt' },
      /^tollgate: .* bolt is not in the file yet; /,
    ],
    ['a text that is no YAML', 'clients: [', { client: 'acme' }, /^FILE:1:/],
    [
      'two of a client',
      `- { id: a, plan: b }\n`.repeat(2),
      { client: 'a' },
      /^FILE:2:9 clients\[1\]\.id: "a" is the same id as /,
    ],
  ])('refuses %s, and leaves the file as it is', async (_, text, options, message) => {
    const file = temporaryFile('gateway.yaml', text)
    expect(await refused(file, options)).toMatch(message)
    expect(readFileSync(file, 'utf8')).toBe(text)
    expect(readdirSync(dirname(file)).filter((name) => name.startsWith('.'))).toEqual([])
  })

  it('names the line of a client that it would not put right', async () => {
    const file = temporaryFile('c.jsonl', `${LINES}{"id":"bolt","plan":"gold","keyz":[]}\n`)
    const message = await refused(file, { client: 'bolt' })
    expect(message).toMatch(/^FILE:2:\d+ clients\[1\]\.keyz: is not a known key; /)
  })

  it.each([
    ['a line that is no JSON', '{"id":"broken", \n', /^FILE:2:\d+ clients\[1\]: is not JSON; /],
    [
      'a client that is there twice',
      '{"id":"acme","plan":"gold"}\n',
      /^FILE:2:\d+ clients\[1\]\.id: "acme" is the same id as FILE:1; /,
    ],
  ])(
    'refuses %s in another place of a file with a client a line, and writes nothing',
    async (_, line, message) => {
      const file = temporaryFile('c.jsonl', LINES + line)
      for (const { code, said } of [
        await newKey({ ...bolt, write: file }),
        await ran(keysRotateCommand, { key: 'acme-1', write: file }),
        await ran(keysRevokeCommand, { key: 'acme-1', write: file }),
      ]) {
        const told = said.map((text) => text.replaceAll(file, 'FILE'))
        expect([code, ...told]).toEqual([2, expect.stringMatching(message)])
      }
      expect(readFileSync(file, 'utf8')).toBe(LINES + line)
      expect(readdirSync(dirname(file))).toEqual(['c.jsonl'])
    },
  )

  it.each([
    ['c.jsonl', `${LINES}{"id":"b","plan":"own","limits":{"perMinute":1,"perDay":2}}\n`],
    [
      'c.yaml',
      '- { id: acme, plan: gold }\n- { id: b, plan: own, limits: { perMinute: 1, perDay: 2 } }\n',
    ],
  ])('takes clients of custom plans and of others in %s', async (name, text) => {
    const file = temporaryFile(name, text)
    expect((await newKey({ ...bolt, write: file })).code).toBe(0)
    expect(readFileSync(file, 'utf8').startsWith(text)).toBe(true)
  })

  it.each(['a.jsonl', 'a.yaml', 'a.yml'])('makes %s where its folder is there', async (name) => {
    const file = join(temporaryFolder(), name)
    expect((await newKey({ client: 'acme', write: file })).code).toBe(2)
    expect(existsSync(file)).toBe(false)
    for (const client of ['acme', 'bolt'])
      expect((await newKey({ client, plan: 'gold', write: file })).code).toBe(0)
    expect(statSync(file).mode & 0o777).toBe(0o640)
    expect(readdirSync(dirname(file))).toEqual([name])
    const config = `clientFiles: ["${file}"]\nplans: { gold: { perMinute: 1, perDay: 2 } }\n`
    const { clients } = await loadConfig(temporaryFile('gateway.yaml', config), {})
    expect(clients.keyCount).toBe(2)
  })

  it.each([
    ['none/a.jsonl', 'FOLDER/none: is not there; make it first'],
    ['a.json', 'FOLDER/a.json: is not there; end its name in .jsonl or .yaml or .yml'],
  ])('makes no %s, and says why', async (name, message) => {
    const folder = temporaryFolder()
    const { code, said } = await newKey({ client: 'a', plan: 'b', write: join(folder, name) })
    expect([code, said[0]?.replace(folder, 'FOLDER')]).toEqual([2, `tollgate: ${message}`])
    expect(readdirSync(folder)).toEqual([])
  })

  it('replaces the file whole: mode kept, symbolic link followed, nothing left beside it', async () => {
    const file = temporaryFile('gateway.yaml', CONFIG)
    chmodSync(file, 0o640)
    const link = join(dirname(file), 'link.yaml')
    symlinkSync(file, link)
    const { ino } = statSync(file)
    expect((await newKey({ client: 'acme', write: link })).code).toBe(0)
    expect(lstatSync(link).isSymbolicLink()).toBe(true)
    expect([statSync(file).mode & 0o777, statSync(file).ino === ino]).toEqual([0o640, false])
    expect(readdirSync(dirname(file)).toSorted()).toEqual(['gateway.yaml', 'link.yaml'])
  })

  it('loses no key of those who write at once', async () => {
    const file = temporaryFile('gateway.yaml', CONFIG)
    const made = await Promise.all(
      Array.from({ length: 8 }, () => newKey({ client: 'acme', write: file })),
    )
    const { clients } = configOf(file)
    for (const { out } of made) expect(clients.keyByDigest(sha256(out[0] ?? ''))).toBeDefined()
    expect(clients.keyCount).toBe(9)
  })

  it('says which lock to remove where somebody left one', async () => {
    const file = temporaryFile('gateway.yaml', CONFIG)
    const lock = join(dirname(file), '.gateway.yaml.lock')
    writeFileSync(lock, '')
    const written = rewriteFile(file, { change: (text) => text, lockAtMostMs: 60 })
    await expect(written).rejects.toThrow(`${lock} is there since 20`)
  })

  it('does not write over what somebody else has written without a lock', async () => {
    const file = temporaryFile('gateway.yaml', CONFIG)
    const change = (text: string) => {
      writeFileSync(file, 'theirs')
      return `${text}ours`
    }
    await expect(rewriteFile(file, { change })).rejects.toThrow('has changed meanwhile; try again')
    expect(readFileSync(file, 'utf8')).toBe('theirs')
    expect(existsSync(join(dirname(file), '.gateway.yaml.lock'))).toBe(false)
  })
})

describe('tollgate keys rotate and revoke', () => {
  it('put a key beside the old one, which ends after the grace', async () => {
    const file = temporaryFile('c.jsonl', LINES)
    const before = Date.now()
    const { out } = await ran(keysRotateCommand, { key: 'acme-1', grace: '2h', write: file })
    const after = Date.now()
    const [text = '', ...more] = readFileSync(file, 'utf8').trim().split('\n')
    const client = JSON.parse(text) as { keys: { expires?: string }[] }
    const keys = [{ id: 'acme-1' }, { sha256: sha256(out[0] ?? '') }]
    expect([client, out.length, more]).toMatchObject([{ id: 'acme', plan: 'gold', keys }, 1, []])
    const endsAtMs = Date.parse(client.keys[0]?.expires ?? '')
    expect(endsAtMs).toBeGreaterThanOrEqual(before + 7_200_000)
    expect(endsAtMs).toBeLessThanOrEqual(after + 7_200_000)
  })

  const ended = LINES.replace('"}]', '","expires":"2020-01-01"}]')
  const isOver = 'FILE: acme-1 has ended; make a new one with `tollgate keys new`'
  const noKey = (id: string) =>
    `FILE: has no key ${id}; see them all with \`tollgate keys list --config FILE\``
  const acme = { key: 'acme-1' }
  it.each<[string, typeof keysRotateCommand, { key: string; grace?: string }, string, string?]>([
    ['a key that has ended', keysRotateCommand, acme, isOver, ended],
    ['a grace that is no time', keysRotateCommand, { ...acme, grace: 'soon' }, '--grace is '],
    ['a grace below none', keysRotateCommand, { ...acme, grace: '-1h' }, '--grace is '],
    ['a grace above 400 days', keysRotateCommand, { ...acme, grace: '401d' }, '--grace is '],
    ['to end a key that is not there', keysRevokeCommand, { key: 'acme' }, noKey('acme')],
    ['to replace one that is not there', keysRotateCommand, { key: 'bolt-1' }, noKey('bolt-1')],
  ])('refuse %s', async (...[, command, options, message, text = LINES]) => {
    const file = temporaryFile('c.jsonl', text)
    const { code, said } = await ran(command, { ...options, write: file })
    expect([code, said.length]).toEqual([2, 1])
    expect(said[0]?.replace(file, 'FILE')).toContain(`tollgate: ${message}`)
    expect(readFileSync(file, 'utf8')).toBe(text)
  })
})
