// A configuration with client files: found by name and pattern, read in a thread where they are long, one revision over all.
import { hash } from 'node:crypto'
import { appendFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { loadConfig } from '../../../src/config/clients/load.ts'
import { ConfigError } from '../../../src/config/problems.ts'
import { temporaryFolder } from '../../support/processes.ts'
import { sentConfig } from './files.ts'

const folder = temporaryFolder()
beforeEach(() => {
  rmSync(join(folder, 'clients'), { recursive: true, force: true })
  mkdirSync(join(folder, 'clients'))
})

const main = join(folder, 'gateway.yaml')
const put = (name: string, text: string) => writeFileSync(join(folder, name), text)
const sha256 = (text: string): string => hash('sha256', text)
const client = (id: string, rest: object = {}) =>
  `${JSON.stringify({ id, plan: 'pro', keys: [{ id: `${id}-1`, sha256: sha256(id), ...rest }] })}\n`
const load = () => loadConfig(main, {})
const complaints = async () => {
  const error: unknown = await load().catch((error: unknown) => error)
  if (!(error instanceof ConfigError)) throw error
  return error.format().map((line) => line.replaceAll(folder, ''))
}

describe('a configuration with client files', () => {
  it('has the clients of all of them, in the order of their names, behind its own', async () => {
    const files = '[clients/*.jsonl, one.yaml, clients/b.jsonl]'
    put('gateway.yaml', `clients: [{ id: own, plan: free }]\nclientFiles: ${files}\n`)
    put('clients/b.jsonl', client('b'))
    put('clients/a.jsonl', client('a'))
    put('clients/.hidden.jsonl', 'not read')
    put('clients/notes.txt', 'not read')
    put('one.yaml', '- { id: one, plan: business }\n')
    const { clients, revision } = await load()
    expect([...clients].map(({ id }) => id)).toEqual(['own', 'a', 'b', 'one'])
    expect(clients.get('one')?.limits).toEqual({ perMinute: 1000, perDay: 100_000 })
    expect(clients.keyById('a-1')?.client.id).toBe('a')
    expect((await load()).revision).toBe(revision)
    appendFileSync(join(folder, 'clients/a.jsonl'), client('c'))
    const changed = await load()
    expect(changed.revision).not.toBe(revision)
    expect(changed.clients.size).toBe(5)
  })

  it('tells the faults of all its files together, also of those that it cannot find', async () => {
    put(
      'gateway.yaml',
      'unmatched: maybe\nclientFiles:\n  - a.jsonl\n  - none.yaml\n  - none/*.yaml\n  - "*/x.yaml"\n  - a.txt\n  - clients/*.jsonl\n  - folder.yaml\n',
    )
    put('a.jsonl', client('a').replace('pro', 'pre'))
    mkdirSync(join(folder, 'folder.yaml'), { recursive: true })
    expect(await complaints()).toEqual([
      '/gateway.yaml:1:12 unmatched: "maybe" is not a known choice; write one of forward, reject',
      '/gateway.yaml:4:5 clientFiles[1]: "none.yaml" cannot be read (ENOENT); check its name and permissions',
      '/gateway.yaml:5:5 clientFiles[2]: "none/*.yaml" cannot be read (ENOENT); check its name and permissions',
      '/gateway.yaml:6:5 clientFiles[3]: "*/x.yaml" has a "*" in a folder; write it in the last step only',
      '/gateway.yaml:7:5 clientFiles[4]: "a.txt" is neither YAML nor JSONL; name it .yaml, .yml or .jsonl',
      '/gateway.yaml:9:5 clientFiles[6]: "folder.yaml" names folder.yaml, which is no file; name files',
      '/a.jsonl:1:18 clients[0].plan: "pre" is not a defined plan; did you mean pro? the plans are free, pro, business, enterprise',
    ])
  })

  it('reads Windows line ends, behind lines with escapes, too', async () => {
    put('gateway.yaml', 'clientFiles: [a.jsonl]\n')
    put('a.jsonl', '{"id":"a\\u0062","plan":"pro"}\r\n{"id":"c","plan":"pro"}\r\n')
    expect([...(await load()).clients].map(({ id }) => id)).toEqual(['ab', 'c'])
  })

  it('warns of a pattern that no file matches', async () => {
    put('gateway.yaml', 'clientFiles: [clients/*.jsonl]\n')
    const { warnings } = await load()
    expect(warnings.map((line) => line.replaceAll(folder, ''))).toContain(
      '/gateway.yaml:1:15 clientFiles[0]: warning: "clients/*.jsonl" matches no file; check its name',
    )
  })

  it('tells of an id that stands twice also where a file cannot be read to its end', async () => {
    put('gateway.yaml', 'clientFiles: [a.jsonl]\n')
    const long = client('x'.repeat(17 * 2 ** 20))
    put('a.jsonl', client('a') + client('a') + long)
    expect(await complaints()).toEqual([
      '/a.jsonl:1:1 (file): has a client of more than 16MiB; divide it',
      '/a.jsonl:2:7 clients[1].id: "a" is the same id as /a.jsonl:1; give each its own',
      '/a.jsonl:2:38 clients[1].keys[0].id: "a-1" is the same id as /a.jsonl:1; give each its own',
      '/a.jsonl:2:53 clients[1].keys[0].sha256: is the same digest as /a.jsonl:1; one key belongs to one client, once',
    ])
  })

  it('reads long files in a thread, to the same end, and counts keys that end soon', async () => {
    put('gateway.yaml', 'clientFiles: [clients/*.jsonl]\n')
    const ids = Array.from({ length: 9_000 }, (_, n) => `customer-${n}`)
    const soon = new Date(Date.now() + 86_400_000).toISOString()
    const lines = ids.map((id, n) => client(id, n % 2_500 === 0 ? { expires: soon } : {}))
    put('clients/a.jsonl', lines.join(''))
    const config = await load()
    expect(config.clients.size).toBe(9_000)
    expect(config.warnings.filter((line) => line.includes('has 4 keys that end'))).toHaveLength(1)
    for (const { clients } of [config, sentConfig(config)]) {
      expect([...clients].map(({ id }) => id)).toEqual(ids)
      for (const id of ids) {
        const owned = clients.keyByDigest(sha256(id))
        if (owned?.key.sha256 !== sha256(id) || owned.client.id !== id) expect(owned, id).toBe(id)
      }
      expect(clients.keyByDigest('g'.repeat(64))).toBeUndefined()
    }
    put('clients/b.jsonl', client('customer-8999'))
    expect(await complaints()).toEqual([
      '/clients/b.jsonl:1:7 clients[0].id: "customer-8999" is the same id as /clients/a.jsonl:9000; give each its own',
      '/clients/b.jsonl:1:50 clients[0].keys[0].id: "customer-8999-1" is the same id as /clients/a.jsonl:9000; give each its own',
      '/clients/b.jsonl:1:77 clients[0].keys[0].sha256: is the same digest as /clients/a.jsonl:9000; one key belongs to one client, once',
    ])
  })
})
