/** Bytes in, requests out: the same whatever pieces the bytes come in, and never framed otherwise than by another strict parser. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { clientCases } from '../../fuzz/cases.ts'
import { conversations, type Conversation } from '../../fuzz/client-grammar.ts'
import { keys } from '../../support/gateway.ts'
import { difference, HEAD_BYTES, readByUs, type Framed } from './framed-requests.ts'

const bytesOf = (text: string): Buffer => Buffer.from(text, 'latin1')
const one = (text: string) => readByUs([bytesOf(text)])
const byteByByte = (text: string) => readByUs(Array.from(text, bytesOf))

const HOST = 'Host: a\r\n'
const get = (fields = ''): string => `GET / HTTP/1.1\r\n${HOST}${fields}\r\n`
const post = (fields: string, body: string): string =>
  `POST /x HTTP/1.1\r\n${HOST}${fields}\r\n${body}`
const CHUNKED = 'Transfer-Encoding: chunked\r\n'

describe('a request', () => {
  it.each([
    ['without a body', get('A: 1\r\nB:\t2 \r\nC:\r\n'), ['GET / 1.1|Host|a|A|1|B|2|C||']],
    [
      'of HTTP/1.0',
      `GET / HTTP/1.0\r\n${HOST}Connection: keep-alive\r\n\r\n`,
      ['GET / 1.0|Host|a|Connection|keep-alive|'],
    ],
    ['behind one empty line', `\r\n${get()}`, ['GET / 1.1|Host|a|']],
    [
      'with a length',
      post('Content-Length: 4\r\n', 'body') + get(),
      ['POST /x 1.1|Host|a|Content-Length|4|body', 'GET / 1.1|Host|a|'],
    ],
    [
      'with chunks',
      post(CHUNKED, '4;a="\\";b"\r\nbody\r\n0A\r\n0123456789\r\n0\r\nT: t\r\n\r\n') + get(),
      ['POST /x 1.1|Host|a|Transfer-Encoding|chunked|body0123456789', 'GET / 1.1|Host|a|'],
    ],
    [
      'with thousands of chunks',
      post(CHUNKED, `${'1\r\nx\r\n'.repeat(3_000)}0\r\n\r\n`),
      [`POST /x 1.1|Host|a|Transfer-Encoding|chunked|${'x'.repeat(3_000)}`],
    ],
    ['of bytes above ASCII', get('A: \xe4\xff\r\n'), ['GET / 1.1|Host|a|A|\xe4\xff|']],
  ])('is read %s, whole and byte by byte', (_, text, requests) => {
    expect(one(text)).toEqual({ requests, end: undefined })
    expect(byteByByte(text)).toEqual({ requests, end: undefined })
  })

  it.each([
    ['two empty lines', `\r\n\r\n${get()}`],
    ['a space in front', ` ${get()}`],
    ['no target', `GET  HTTP/1.1\r\n${HOST}\r\n`],
    ['two spaces', `GET  / HTTP/1.1\r\n${HOST}\r\n`],
    ['a tab for a space', `GET\t/ HTTP/1.1\r\n${HOST}\r\n`],
    ['a space behind the version', `GET / HTTP/1.1 \r\n${HOST}\r\n`],
    ['another version', `GET / HTTP/1.2\r\n${HOST}\r\n`],
    ['HTTP/0.9', 'GET /\r\n\r\n'],
    ['HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a control byte in the target', `GET /\x01 HTTP/1.1\r\n${HOST}\r\n`],
    ['a bare LF', `GET / HTTP/1.1\n${HOST}\r\n`],
    ['a bare CR', get('A: b\rc\r\n')],
    ['a bare LF in a field', get('A: b\nC: d\r\n')],
    ['a NUL', get('A: \0\r\n')],
    ['a space before the colon', get('A : b\r\n')],
    ['a folded line', get('A: b\r\n c\r\n')],
    ['a line without a colon', get('A\r\n')],
    ['no name', get(': b\r\n')],
    ['two lengths', post('Content-Length: 1\r\nContent-Length: 1\r\n', 'x')],
    ['a length and chunks', post(`Content-Length: 1\r\n${CHUNKED}`, '0\r\n\r\n')],
    ['a signed length', post('Content-Length: +1\r\n', 'x')],
    ['another coding', post('Transfer-Encoding: gzip, chunked\r\n', '0\r\n\r\n')],
    ['chunks in HTTP/1.0', `POST / HTTP/1.0\r\n${HOST}${CHUNKED}\r\n0\r\n\r\n`],
    ['a chunk size of nothing', post(CHUNKED, '\r\nx\r\n0\r\n\r\n')],
    ['a chunk size with a sign', post(CHUNKED, '+1\r\nx\r\n0\r\n\r\n')],
    ['a chunk size in C', post(CHUNKED, '0x1\r\nx\r\n0\r\n\r\n')],
    ['a chunk size with a space', post(CHUNKED, '1 \r\nx\r\n0\r\n\r\n')],
    ['a chunk size beyond all', post(CHUNKED, 'fffffffffffffffff\r\nx\r\n0\r\n\r\n')],
    ['a chunk that is longer than its size', post(CHUNKED, '1\r\nxy\r\n0\r\n\r\n')],
    ['a bare LF behind a chunk size', post(CHUNKED, '1\nx\r\n0\r\n\r\n')],
    ['a bare LF behind a chunk', post(CHUNKED, '1\r\nx\n0\r\n\r\n')],
    ['a bare CR in an extension', post(CHUNKED, '1;a\rb\r\nx\r\n0\r\n\r\n')],
    ['an endless extension', post(CHUNKED, `1;${'a'.repeat(2_000)}\r\nx\r\n0\r\n\r\n`)],
    ['a trailer that frames', post(CHUNKED, '0\r\nContent-Length: 3\r\n\r\n')],
    ['an endless head', get(`A: ${'x'.repeat(HEAD_BYTES)}\r\n`)],
    ['an endless trailer section', post(CHUNKED, `0\r\nA: ${'x'.repeat(HEAD_BYTES)}\r\n\r\n`)],
  ])('is none with %s, and nothing behind it is read', (_, text) => {
    for (const framed of [one(text + get()), byteByByte(text + get())]) {
      expect(framed.requests).toEqual([])
      expect(framed.end).toBeDefined()
    }
  })

  it('is malformed, not too large, where what stands for a chunk size has no end', () => {
    expect(one(post(CHUNKED, 'g'.repeat(2_000))).end).toBe('malformed chunk')
  })

  it.each(['\x16\x03\x01\x02', 'GET /x\n', 'EHLO example\r\n', 'GET / HTTP/1.1\r\nA\x01', '{"a"'])(
    'that can become none is refused before its end comes: %j',
    (text) => {
      expect(byteByByte(text).end).toBeDefined()
      expect(one(text).end).toBeDefined()
    },
  )
})

/** A fault may be found earlier, and named otherwise, where less has come. */
const outcome = ({ requests, end }: Framed) => ({ requests, isOver: end !== undefined })

const textOf = ({ steps }: Conversation): string =>
  steps.filter((step) => typeof step === 'string').join('')
const drawn = (count: number, seed: number): string[] =>
  fc
    .sample(conversations({ valid: [keys.pro], expired: keys.free }), { numRuns: count, seed })
    .map(textOf)

describe('Node.js, which reads the same bytes', () => {
  it('frames each request that we serve as we do', () => {
    const found = drawn(3_000, 1).map((text) => difference(bytesOf(text)))
    expect(found.filter((each) => each !== undefined)).toEqual([])
  })

  it('and so do we, wherever the bytes are cut', () => {
    for (const text of [...Object.values(clientCases).map(textOf), ...drawn(60, 2)]) {
      const whole = outcome(one(text))
      expect(outcome(byteByByte(text)), JSON.stringify(text)).toEqual(whole)
      for (let cut = 1; cut < Math.min(text.length, 700); cut += 7) {
        const halves = [text.slice(0, cut), text.slice(cut)].map(bytesOf)
        expect(outcome(readByUs(halves)), JSON.stringify([text, cut])).toEqual(whole)
      }
    }
  })
})
