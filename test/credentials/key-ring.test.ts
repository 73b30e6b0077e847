import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createKeyRing } from '../../src/credentials/key-ring.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const client = (id: string, keys: { id: string; key: string; expiresAtMs?: number }[]) => ({
  id,
  plan: 'free',
  limits: { perMinute: 60, perDay: 1000 },
  keys: keys.map(({ id, key, expiresAtMs }) => ({ id, sha256: sha256(key), expiresAtMs })),
})

describe('a key ring', () => {
  const ring = createKeyRing(
    [
      client('acme', [
        { id: 'acme-1', key: 'one' },
        { id: 'acme-2', key: 'two', expiresAtMs: 5000 },
      ]),
      client('other', [{ id: 'other-1', key: 'three' }]),
    ],
    true,
  )

  it('finds the caller of each key', () => {
    expect(ring.size).toBe(3)
    expect(ring.find('one', 0)).toMatchObject({ clientId: 'acme', keyId: 'acme-1', plan: 'free' })
    expect(ring.find('three', 0)).toMatchObject({ clientId: 'other', keyId: 'other-1' })
  })

  it('answers one and the same frozen caller each time', () => {
    expect(ring.find('one', 0)).toBe(ring.find('one', 1))
    expect(Object.isFrozen(ring.find('one', 0))).toBe(true)
  })

  it('refuses a key from the moment it expires', () => {
    expect(ring.find('two', 4999)?.keyId).toBe('acme-2')
    expect(ring.find('two', 5000)).toBeUndefined()
  })

  it('knows no other text, its own digests and names of Object.prototype included', () => {
    for (const token of ['', 'One', 'one ', sha256('one'), '__proto__', 'constructor'])
      expect(ring.find(token, 0)).toBeUndefined()
  })
})
