import { createHash } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createClients } from '../../support/clients.ts'
import { createKeyRing } from '../../../src/core/credentials/callers.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const client = (id: string, keys: { id: string; key: string; expiresAtMs?: number }[]) => ({
  id,
  plan: 'free',
  limits: { perMinute: 60, perDay: 1000 },
  concurrent: 32,
  keys: keys.map(({ id, key, expiresAtMs }) => ({ id, sha256: sha256(key), expiresAtMs })),
})

describe('a key ring', () => {
  const used = new Map<string, true>()
  const ring = createKeyRing(
    createClients([
      client('acme', [
        { id: 'acme-1', key: 'one' },
        { id: 'acme-2', key: 'two', expiresAtMs: 5000 },
      ]),
      client('other', [{ id: 'other-1', key: 'three' }]),
    ]),
    used,
    true,
  )

  it('answers one and the same frozen caller each time', () => {
    expect(ring.find('one')).toBe(ring.find('one'))
    expect(Object.isFrozen(ring.find('one'))).toBe(true)
  })

  it('finds the same caller by the digest of the key', () => {
    expect(ring.findDigest(sha256('two'))).toBe(ring.find('two'))
    expect(ring.findDigest('two')).toBeUndefined()
  })

  it('knows no other text, its own digests and names of Object.prototype included', () => {
    for (const token of ['', 'One', 'one ', sha256('one'), '__proto__', 'constructor'])
      expect(ring.find(token)).toBeUndefined()
  })

  it('asks for a key once while it keeps its caller, and keeps a bounded number', () => {
    const asked: string[] = []
    const own = client('acme', [{ id: 'acme-1', key: 'one' }])
    const [key] = own.keys
    const many = createKeyRing(
      {
        keyByDigest: (sha256) => {
          asked.push(sha256)
          return key && { client: own, key: { ...key, sha256 } }
        },
      },
      new Map(),
      true,
    )
    const first = many.find('one')
    expect(many.find('one')).toBe(first)
    expect(asked).toEqual([sha256('one')])
    for (let at = 0; at < 65_000; at++) many.find(String(at))
    expect(many.findDigest('a'.repeat(64))).not.toBe(many.findDigest('a'.repeat(63)))
    expect(many.find('one')).toBe(first)
    for (let at = 65_000; at < 66_000; at++) many.find(String(at))
    expect(many.find('one')).not.toBe(first)
    expect(many.find('one')).toEqual(first)
  })

  it('tells a key that was used and is gone from one that never was here', () => {
    expect(ring.find('one')).toMatchObject({ keyId: 'acme-1' })
    const next = createKeyRing(
      createClients([client('other', [{ id: 'new', key: 'new' }])]),
      used,
      true,
    )
    expect(next.find('one')).toBe('revoked')
    expect(next.find('four')).toBeUndefined()
    expect(next.findDigest(sha256('one'))).toBeUndefined()
    const many = createKeyRing(
      {
        keyByDigest: (digest) => ({
          client: client('many', []),
          key: { id: digest, sha256: digest, expiresAtMs: undefined },
        }),
      },
      used,
      true,
    )
    for (let at = 0; at < 65_536; at++) many.findDigest(String(at))
    expect(next.find('one')).toBeUndefined()
    expect(used.has('0')).toBe(true)
  })
})
