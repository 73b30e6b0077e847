import { describe, expect, it } from 'vitest'
import { parseConfigText } from '../../../src/config/clients/load.ts'
import { sentConfig } from './files.ts'
import { createClients } from '../../support/clients.ts'

const digest = (digit: string) => digit.repeat(64)
const config = parseConfigText(
  `clients:
  - { id: acme, plan: free, keys: [{ id: acme-1, sha256: ${digest('A')} }, { id: acme-2, sha256: ${digest('b')}, expires: 2099-01-01 }] }
  - { id: bolt, plan: pro, keys: [{ id: bolt-1, sha256: ${digest('c')} }] }
  - { id: none, plan: pro }
`,
  { file: 'F', env: {} },
)

describe('the clients of a configuration', () => {
  it.each([
    ['as read', config],
    ['after a way between processes', sentConfig(config)],
  ])('are found by id, by key and by digest, %s', (_, { clients }) => {
    const [acme, bolt, none] = clients
    expect([clients.size, clients.keyCount]).toEqual([3, 3])
    expect([acme?.id, bolt?.id, none?.id]).toEqual(['acme', 'bolt', 'none'])
    expect(clients.get('bolt')).toEqual(bolt)
    expect(clients.keyById('acme-2')).toEqual({ client: acme, key: acme?.keys[1] })
    expect(clients.keyByDigest(digest('a'))).toEqual({ client: acme, key: acme?.keys[0] })
    const wrong = [digest('d'), digest('a').slice(1), digest('g')]
    for (const unknown of ['constructor', 'acme-1', '', ...wrong]) {
      expect(clients.get(unknown)).toBeUndefined()
      expect(clients.keyByDigest(unknown)).toBeUndefined()
    }
    expect(clients.keyById('acme')).toBeUndefined()
    const endMs = Date.UTC(2099, 0, 1)
    expect(clients.countEnding(endMs, endMs + 1)).toBe(1)
    expect(clients.countEnding(0, endMs)).toBe(0)
    expect(clients.countEnding(endMs + 1, Infinity)).toBe(0)
  })

  it('may be none', () => {
    const clients = createClients([])
    expect([...clients, clients.size, clients.keyCount]).toEqual([0, 0])
  })
})
