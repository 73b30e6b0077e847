/** PROXY headers: what is one, what may yet become one, and what never will. */
import { describe, expect, it } from 'vitest'
import { readProxyHeader } from '../../../src/core/rules/proxy-header.ts'

const hex = (text: string): Buffer => Buffer.from(text.replaceAll(' ', ''), 'hex')
const SIGN = '0d0a0d0a000d0a515549540a'
const V4 = '0a000001 0a000002 1f90 01bb'
const V6 = '20010db8000000000000000000000001 20010db8000000000000000000000002 1f90 01bb'

const good: [string, Buffer, string | undefined][] = [
  ['TCP4', Buffer.from('PROXY TCP4 203.0.113.7 10.0.0.1 5 443\r\n'), '203.0.113.7'],
  ['TCP6', Buffer.from('PROXY TCP6 2001:DB8:0::1 ::1 5 443\r\n'), '2001:db8::1'],
  ['UNKNOWN with more', Buffer.from('PROXY UNKNOWN ff:ff 1 2\r\n'), undefined],
  ['v2 over IPv4', hex(`${SIGN} 21 11 000c ${V4}`), '10.0.0.1'],
  ['v2 over IPv6', hex(`${SIGN} 21 21 0024 ${V6}`), '2001:db8::1'],
  ['v2 with more', hex(`${SIGN} 21 11 000f ${V4} 010203`), '10.0.0.1'],
  ['v2 LOCAL', hex(`${SIGN} 20 00 0000`), undefined],
  ['v2 of no family', hex(`${SIGN} 21 00 0002 0102`), undefined],
]

describe('a PROXY header', () => {
  it.each(good)('is read, whole and byte by byte: %s', (_, header, address) => {
    const bytes = Buffer.concat([header, Buffer.from('GET')])
    for (let end = 1; end < header.length; end++)
      expect(readProxyHeader(bytes.subarray(0, end)), String(end)).toBe('incomplete')
    for (const end of [header.length, bytes.length])
      expect(readProxyHeader(bytes.subarray(0, end))).toEqual({ bytes: header.length, address })
  })

  it.each<[string, string | Buffer]>([
    ['none', 'GET / HTTP/1.1\r\n'],
    ['LF alone', 'PROXY TCP4 1.1.1.1 2.2.2.2 1 2\n'],
    ['lower case', 'proxy TCP4 1.1.1.1 2.2.2.2 1 2\r\n'],
    ['a port too high', 'PROXY TCP4 1.1.1.1 2.2.2.2 65536 2\r\n'],
    ['no port', 'PROXY TCP4 1.1.1.1 2.2.2.2 1\r\n'],
    ['the other family', 'PROXY TCP4 ::1 ::2 1 2\r\n'],
    ['a zone', 'PROXY TCP6 fe80::1%eth0 ::2 1 2\r\n'],
    ['another transport', 'PROXY UDP4 1.1.1.1 2.2.2.2 1 2\r\n'],
    ['no end', `PROXY UNKNOWN ${'x'.repeat(100)}`],
    ['too late an end', `PROXY UNKNOWN ${'x'.repeat(100)}\r\n`],
    ['version 1 in binary', hex(`${SIGN} 11 11 000c ${V4}`)],
    ['an unknown command', hex(`${SIGN} 22 11 000c ${V4}`)],
    ['a UNIX socket', hex(`${SIGN} 21 31 000c ${V4}`)],
    ['too short for its family', hex(`${SIGN} 21 21 000c ${V4}`)],
    ['too long', hex(`${SIGN} 21 11 0201 ${V4}`)],
  ])('is refused: %s', (_, bytes) => {
    expect(readProxyHeader(Buffer.from(bytes as string, 'latin1'))).toBeUndefined()
  })
})
