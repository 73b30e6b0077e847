/** Bytes in, answers out: the same whatever pieces the bytes come in. */
import { describe, expect, it } from 'vitest'
import { AnswerReader } from '../../../src/core/http/answer-reader.ts'

const limitBytes = 2_048

/** What a reader finds of one answer, pieces of a body joined. */
function feed(pieces: readonly string[], { isHead = false, ends = false } = {}) {
  const found: { news: string[]; body: string } = { news: [], body: '' }
  const reader = new AnswerReader(limitBytes)
  reader.isToHead = isHead
  for (const piece of pieces) {
    reader.add(Buffer.from(piece, 'latin1'))
    for (let what = reader.next(); what !== 'more'; what = reader.next()) {
      if (what === 'piece') found.body += reader.piece.toString('latin1')
      else if (what === 'head') {
        const { status, headers = [] } = reader.head ?? {}
        found.news.push(`${status} ${headers.join('|')}${reader.persists ? '' : ' closes'}`)
      } else {
        const isBroken = what === 'fault'
        const end = reader.heldBytes > 0 ? 'end and more' : 'end'
        found.news.push(isBroken ? 'broken' : end)
        return found
      }
    }
  }
  if (ends) found.news.push(reader.endsWithConnection ? 'end' : 'broken')
  return found
}

const ok = 'HTTP/1.1 200 OK\r\n'
const long = 'x'.repeat(limitBytes)
const answers: [string, string, string[], string][] = [
  [
    'a length',
    `${ok}A: 1\r\nContent-Length: 4\r\n\r\nbody`,
    ['200 A|1|Content-Length|4', 'end'],
    'body',
  ],
  [
    'chunks',
    `${ok}Transfer-Encoding: chunked\r\n\r\n4;a="\\";b"\r\nbody\r\n0A\r\n0123456789\r\n0\r\nT: t\r\n\r\n`,
    ['200 Transfer-Encoding|chunked', 'end'],
    'body0123456789',
  ],
  ['no length', `${ok}\r\nbody`, ['200  closes', 'end'], 'body'],
  ['no body', 'HTTP/1.1 204 None\r\n\r\n', ['204 ', 'end'], ''],
  ['an empty body', `${ok}content-LENGTH:0\r\n\r\n`, ['200 content-LENGTH|0', 'end'], ''],
  [
    'an empty reason',
    'HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n',
    ['200 Content-Length|0', 'end'],
    '',
  ],
  [
    'interim answers',
    `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\n${ok}Content-Length: 1\r\n\r\nx`,
    ['200 Content-Length|1', 'end'],
    'x',
  ],
  [
    'white space around values',
    `${ok}A: \t b\tc \t\r\nB:\r\nC: \r\nContent-Length: 0\r\n\r\n`,
    ['200 A|b\tc|B||C||Content-Length|0', 'end'],
    '',
  ],
  [
    'HTTP/1.0',
    'HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx',
    ['200 Content-Length|1 closes', 'end'],
    'x',
  ],
  [
    'HTTP/1.0 that stays',
    'HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx',
    ['200 Connection|Keep-Alive|Content-Length|1', 'end'],
    'x',
  ],
  [
    'a close among options',
    `${ok}Connection: x, Close\r\nContent-Length: 1\r\n\r\nx`,
    ['200 Connection|x, Close|Content-Length|1 closes', 'end'],
    'x',
  ],
  [
    '304 with a length',
    'HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n',
    ['304 Content-Length|9 closes', 'end'],
    '',
  ],
]

describe('an answer', () => {
  it.each(answers)('with %s is told alike however it is cut', (_, bytes, news, body) => {
    for (let cut = 0; cut <= bytes.length; cut++) {
      const pieces = [bytes.slice(0, cut), bytes.slice(cut)]
      expect(feed(pieces, { ends: true }), `cut at ${cut}`).toEqual({ news, body })
    }
    expect(feed(Array.from(bytes), { ends: true })).toEqual({ news, body })
  })

  it('of chunks that came together is found in few pieces', () => {
    const pieces: Buffer[] = []
    const reader = new AnswerReader(limitBytes)
    reader.add(Buffer.from(`${ok}Transfer-Encoding: chunked\r\n\r\n${'1\r\nx\r\n'.repeat(5_000)}`))
    expect(reader.next()).toBe('head')
    while (reader.next() === 'piece') pieces.push(reader.piece)
    expect(pieces.length).toBeLessThan(6)
    expect(Buffer.concat(pieces)).toHaveLength(5_000)
  })

  it('to HEAD has no body, whatever it says', () => {
    const head = `${ok}Content-Length: 5\r\n\r\n`
    expect(feed([head], { isHead: true }).news).toEqual(['200 Content-Length|5 closes', 'end'])
    expect(feed([`${head}12345`], { isHead: true }).news.at(-1)).toBe('end and more')
    // Nor is its connection trusted to have none.
    expect(feed([`${ok}\r\n`], { isHead: true }).news).toEqual(['200  closes', 'end'])
  })

  it('is told of bytes behind it', () => {
    expect(feed([`${ok}Content-Length: 1\r\n\r\nxy`]).news.at(-1)).toBe('end and more')
    expect(feed([`${ok}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n\r`]).news.at(-1)).toBe(
      'end and more',
    )
  })

  it('may have a head and a trailer section up to the limit', () => {
    const headOf = (bytes: number): string => {
      const rest = `${ok}A: \r\nContent-Length: 0\r\n\r\n`
      return rest.replace('A: ', `A: ${'x'.repeat(bytes - rest.length)}`)
    }
    expect(feed([headOf(limitBytes)]).news.at(-1)).toBe('end')
    expect(feed([headOf(limitBytes + 1)]).news).toEqual(['broken'])
    expect(feed(Array.from(headOf(limitBytes + 1))).news).toEqual(['broken'])
  })
})

const chunked = `${ok}Transfer-Encoding: chunked\r\n\r\n`
const brokenHeads: [string, string][] = [
  ['bare LF line ends', 'HTTP/1.1 200 OK\nContent-Length: 0\n\n'],
  ['a bare CR behind the status', 'HTTP/1.1 200 OK\rContent-Length: 0\r\n\r\n'],
  ['an empty line in front', `\r\n${ok}Content-Length: 0\r\n\r\n`],
  ['a space in front', ` ${ok}Content-Length: 0\r\n\r\n`],
  ['another version', 'HTTP/1.2 200 OK\r\n\r\n'],
  ['no space behind the version', 'HTTP/1.1\t200 OK\r\n\r\n'],
  ['a fourth digit', 'HTTP/1.1 2000 OK\r\n\r\n'],
  ['a letter in the status', 'HTTP/1.1 2O0 OK\r\n\r\n'],
  ['an obsolete fold', `${ok}A: 1\r\n b\r\nContent-Length: 0\r\n\r\n`],
  ['a first line that is folded', `${ok} A: 1\r\nContent-Length: 0\r\n\r\n`],
  ['an empty name', `${ok}: 1\r\n\r\n`],
  ['no colon', `${ok}A\r\n\r\n`],
  ['a name beyond ASCII', `${ok}\xe4: 1\r\n\r\n`],
  ['a DEL in a value', `${ok}A: \x7f\r\n\r\n`],
  ['a NUL behind the status', 'HTTP/1.1 200 O\0K\r\n\r\n'],
  ['a repeated length', `${ok}Content-Length: 1\r\nContent-Length: 1\r\n\r\nx`],
  ['an empty length', `${ok}Content-Length:\r\n\r\n`],
  ['a hexadecimal length', `${ok}Content-Length: 0x1\r\n\r\nx`],
  ['a length with a fraction', `${ok}Content-Length: 1.0\r\n\r\nx`],
  ['a length of 16 digits', `${ok}Content-Length: 1000000000000000\r\n\r\nx`],
  ['white space behind a length', `${ok}Content-Length: 1 \r\n\r\nx`],
  [
    'chunked twice',
    `${ok}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  ['chunked and chunked', `${ok}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n`],
  ['an empty coding', `${ok}Transfer-Encoding:\r\n\r\n0\r\n\r\n`],
  ['chunks in HTTP/1.0', 'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'],
  ['an interim answer with a length', `HTTP/1.1 103 Hints\r\nContent-Length: 5\r\n\r\n${ok}`],
]
const brokenBodies: [string, string][] = [
  ['an empty chunk size', `${chunked}\r\n\r\n`],
  ['a signed chunk size', `${chunked}+1\r\nx\r\n0\r\n\r\n`],
  ['a prefixed chunk size', `${chunked}0x1\r\nx\r\n0\r\n\r\n`],
  ['a space behind a chunk size', `${chunked}1 \r\nx\r\n0\r\n\r\n`],
  ['a chunk size beyond counting', `${chunked}10000000000000\r\nx\r\n0\r\n\r\n`],
  ['a chunk size that ends with LF', `${chunked}1\nx\r\n0\r\n\r\n`],
  ['a chunk that ends with LF', `${chunked}1\r\nx\n0\r\n\r\n`],
  ['an extension without a name', `${chunked}1;\r\nx\r\n0\r\n\r\n`],
  ['an extension with a control byte', `${chunked}1;a=\x01\r\nx\r\n0\r\n\r\n`],
  ['a line end in a quoted extension', `${chunked}1;a="\r\n"\r\nx\r\n0\r\n\r\n`],
  ['an extension that is too long', `${chunked}1;${long}\r\nx\r\n0\r\n\r\n`],
  ['a trailer without a colon', `${chunked}0\r\nA\r\n\r\n`],
  ['a trailer section that is too long', `${chunked}0\r\nA: ${long}\r\n\r\n`],
  ['a length in the trailer section', `${chunked}0\r\nContent-Length: 1\r\n\r\n`],
  ['a coding in the trailer section', `${chunked}0\r\nA: 1\r\ntransfer-encoding: x\r\n\r\n`],
]

describe('what is broken', () => {
  it.each(brokenHeads)('is an answer with %s, however it is cut', (_, bytes) => {
    for (const pieces of [[bytes], Array.from(bytes)]) expect(feed(pieces).news).toEqual(['broken'])
  })

  it.each(brokenBodies)('is a body with %s, however it is cut', (_, bytes) => {
    for (const pieces of [[bytes], Array.from(bytes)])
      expect(feed(pieces).news).toEqual(['200 Transfer-Encoding|chunked', 'broken'])
  })

  it.each(answers.filter(([what]) => what !== 'no length'))(
    'is an answer with %s that ends too early',
    (_, bytes) => {
      for (let cut = 0; cut < bytes.length; cut++) {
        const { news } = feed([bytes.slice(0, cut)], { ends: true })
        expect(news.at(-1), `cut at ${cut}`).toBe('broken')
      }
    },
  )

  it('is told once, and nothing after it', () => {
    expect(feed(['SSH-2.0', '\r\n\r\n', `${ok}\r\n`], { ends: true }).news).toEqual(['broken'])
  })
})
