import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createClientAddress } from '../../../src/core/rules/client-address.ts'

const direct = createClientAddress([])
const behind = createClientAddress(['10.0.0.0/8', 'fd00::/8', '192.0.2.1'])

describe('client address', () => {
  it.each([
    ['203.0.113.9', '203.0.113.9', '203.0.113.9'],
    ['::ffff:203.0.113.9', '203.0.113.9', '203.0.113.9'],
    ['::FFFF:cb00:7109', '203.0.113.9', '203.0.113.9'],
    ['0:0:0:0:0:ffff:203.0.113.9', '203.0.113.9', '203.0.113.9'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:0DB8:0001::1', '2001:db8:1::1', '2001:db8:1:0::/64'],
    ['fe80::1%eth0', 'fe80::1', 'fe80:0:0:0::/64'],
    ['::', '::', '0:0:0:0::/64'],
    ['', '', ''],
  ])('reads the peer %j as %j, counted under %j', (peer, address, key) => {
    expect(direct(peer, '1.2.3.4')).toEqual({ address, key, peerTrusted: false, proxies: '' })
  })

  it.each([
    ['203.0.113.9', '1.2.3.4', '203.0.113.9', ''],
    ['10.0.0.1', undefined, '10.0.0.1', ''],
    ['::ffff:10.0.0.1', '1.2.3.4', '1.2.3.4', '10.0.0.1'],
    ['192.0.2.1', '1.2.3.4', '1.2.3.4', '192.0.2.1'],
    ['fd00::1', '2001:db8::1', '2001:db8::1', 'fd00::1'],
    ['10.0.0.1', 'evil, 9.9.9.9, 1.2.3.4, 10.0.0.2', '1.2.3.4', '10.0.0.2, 10.0.0.1'],
    ['10.0.0.1', '10.0.0.3,10.0.0.2', '10.0.0.3', '10.0.0.2, 10.0.0.1'],
    ['10.0.0.1', '1.2.3.4:5678', '1.2.3.4', '10.0.0.1'],
    ['10.0.0.1', '[2001:db8::1]:80', '2001:db8::1', '10.0.0.1'],
    ['10.0.0.1', 'fe80::1%eth0', 'fe80::1', '10.0.0.1'],
    ['10.0.0.1', 'unknown', '10.0.0.1', ''],
    ['10.0.0.1', '1.2.3.4, _hidden, 10.0.0.2', '10.0.0.2', '10.0.0.1'],
    ['10.0.0.1', '1.2.3.4,', '10.0.0.1', ''],
    ['10.0.0.1', ',1.2.3.4', '1.2.3.4', '10.0.0.1'],
    ['10.0.0.1', '01.2.3.4', '10.0.0.1', ''],
    ['10.0.0.1', '1.2.3.4:', '10.0.0.1', ''],
    ['10.0.0.1', '[1.2.3.4', '10.0.0.1', ''],
  ])('believes %s with X-Forwarded-For %j for %s', (peer, forwardedFor, address, proxies) => {
    const peerTrusted = peer !== '203.0.113.9'
    expect(behind(peer, forwardedFor)).toMatchObject({ address, proxies, peerTrusted })
  })

  it('counts a forwarded IPv6 client under its /64, and does not mix up peers that take turns', () => {
    for (let round = 0; round < 3; round++) {
      expect(behind('10.0.0.1', '2001:db8:0:7::9').key).toBe('2001:db8:0:7::/64')
      expect(behind('10.0.0.1', '1.2.3.4').address).toBe('1.2.3.4')
      expect(behind('10.0.0.1', undefined).address).toBe('10.0.0.1')
      expect(behind('203.0.113.9', '1.2.3.4').address).toBe('203.0.113.9')
    }
  })

  it('lets a client behind a trusted proxy say nothing that changes its address', () => {
    const text = fc.string({ maxLength: 12 })
    const entry = fc.oneof(fc.ipV4(), fc.ipV6(), text, fc.constant('10.0.0.9'))
    const [address, key, proxies] = ['203.0.113.9', '203.0.113.9', '10.0.0.1']
    fc.assert(
      fc.property(fc.array(entry, { maxLength: 5 }), (claims) => {
        const found = behind('10.0.0.1', [...claims, address].join(', '))
        expect(found).toEqual({ address, key, peerTrusted: true, proxies })
      }),
    )
  })

  it('gives all spellings of an IPv6 network one key', () => {
    fc.assert(
      fc.property(fc.ipV6(), (text) => {
        // The URL parser is a second opinion on what the address is.
        const canonical = new URL(`http://[${text}]`).hostname.slice(1, -1)
        expect(direct(text, undefined).key).toBe(direct(canonical, undefined).key)
      }),
    )
  })
})
