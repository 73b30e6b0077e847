/** What a backend may send as its answer to one request: sound, nearly so, cut into packets, and how it leaves the connection. */
import * as fc from 'fast-check'
import { weighted, type Drawn } from '../support/drawn.ts'
import { readAnswer, type BackendEnd } from './answer-oracle.ts'
import * as words from './client-words.ts'
import { anyNumber, chunked, cut, cutsAtMost, framingMutations, oneOrTwo, pick } from './grammar.ts'
import type { FramedDraft, Mutation, Step } from './grammar.ts'

export type Method = 'GET' | 'HEAD' | 'POST'

/** `TOKEN` in its bytes stands for what tells one answer from all others; EVIL behind it is nobody's to receive. */
export interface Script {
  readonly method: Method
  readonly steps: readonly Step[]
  readonly end: BackendEnd
}

interface Draft extends FramedDraft {
  interim: string
  version: string
  status: string
  reason: string
  fields: string[]
  surplus: string
}

// prettier-ignore
const STATUSES = ['000', '099', '101', '102', '199', '600', '999', '1000', '20', '2e2', '-20', '', '200\t', '200 ', '\xb200']
// prettier-ignore
const REASONS = ['', ' OK', 'O\x07K', 'O\rK', 'O\nK', 'O\0K', 'caf\xe9', 'OK\r', 'OK\r\n', 'x'.repeat(3_000)]
// prettier-ignore
const VERSIONS = ['HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'HTTP/0.9', 'http/1.1', 'HTTP/1.10', 'HTTP/1', 'ICY', '', ' HTTP/1.1', 'HTTPS/1.1', '\r\nHTTP/1.1', '\nHTTP/1.1', 'RTSP/1.0', 'GET /']
// prettier-ignore
const INTERIM = ['100 Continue', '102 Processing', '103 Early Hints\r\nLink: </a>; rel=preload', '101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket', '199 Odd', '100 Continue\r\nContent-Length: 3', '103 Hints\r\nTransfer-Encoding: chunked', '102 X\r\nX-A: a\rb', '150']
/** Sound, and each with its own meaning between the backend and the gateway. */
// prettier-ignore
const FIELDS = ['Connection: close', 'Connection: keep-alive', 'Connection: X-Hop\r\nX-Hop: EVIL', 'Keep-Alive: timeout=1', 'Keep-Alive: timeout=0, max=0', 'Upgrade: h2c', 'Trailer: X-Late', 'Via: 1.0 other', 'Set-Cookie: a=b', 'Set-Cookie: c=d', 'Content-Type: text/plain', 'X-Probe: caf\xe9', 'X-Probe:', 'X-Request-Id: EVIL', 'X-RateLimit-Remaining: EVIL', 'RateLimit: EVIL', 'Date: yesterday', 'Connection: Content-Length', 'Connection: Transfer-Encoding', 'Connection: close, X-Token-2', 'Content-Encoding: gzip', 'Proxy-Connection: close']
const EVIL = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nEVIL'
// prettier-ignore
const SURPLUS = [EVIL, EVIL.slice(0, 20), '\r\n', 'x', '\0', '0\r\n\r\n', `0\r\n\r\n${EVIL}`, 'EVIL'.repeat(5_000), `${EVIL}${EVIL}`, '\r\n\r\n', 'HTTP/1.1 101 X\r\n\r\nEVIL']

const mutations: Readonly<Record<string, Mutation<Draft>>> = {
  'interim answers': (draft, n) =>
    (draft.interim += `HTTP/1.1 ${pick(INTERIM, n)}\r\n\r\n`.repeat(1 + ((n >> 8) % 3))),
  version: (draft, n) => (draft.version = pick(VERSIONS, n)),
  status: (draft, n) => (draft.status = pick(STATUSES, n)),
  reason: (draft, n) => (draft.reason = pick(REASONS, n)),
  'odd line': (draft, n) =>
    void draft.fields.splice(n % (draft.fields.length + 1), 0, pick(words.LINES, n >> 4)),
  'more framing': (draft, n) => void draft.framing.push(pick(words.FRAMING, n)),
  ...framingMutations,
  'body too long': (draft, n) => (draft.body += pick(['x', '\r\n', 'EVIL', EVIL], n)),
  'body too short': (draft, n) => (draft.body = draft.body.slice(0, n % (draft.body.length + 1))),
  'body where none belongs': (draft, n) => (draft.status = pick(['204', '304', '103'], n)),
  surplus: (draft, n) => (draft.surplus = pick(SURPLUS, n)),
  'many fields': (draft, n) => {
    for (let count = 0; count < pick([50, 200, 1_200], n); count++)
      draft.fields.push(`X-${count}: a`)
  },
  'long field': (draft, n) =>
    void draft.fields.push(`X-Long: ${'a'.repeat(pick([1_000, 10_000, 300_000], n))}`),
}

// prettier-ignore
const contents = ['', 'TOKEN', 'TOKEN'.repeat(40), 'TOKEN\r\n\r\n', '0\r\n\r\n', EVIL, 'TOKEN'.repeat(5_000)]

const drawn = fc.record({
  method: weighted(
    [3, fc.constant('GET' as const)],
    [2, fc.constantFrom('HEAD' as const, 'POST' as const)],
  ),
  status: weighted(
    [3, fc.constant('200')],
    [2, fc.constantFrom(...'201 204 206 301 304 400 404 429 500 503'.split(' '))],
  ),
  framing: fc.constantFrom('length' as const, 'chunked' as const, 'close' as const),
  content: fc.constantFrom(...contents),
  fields: weighted([1, fc.constant<number[]>([])], [1, fc.array(anyNumber, { maxLength: 3 })]),
  mutations: weighted([3, fc.constant([])], [5, oneOrTwo(mutations)]),
  byte: weighted([9, fc.constant(undefined)], [1, anyNumber]),
  cuts: cutsAtMost(8),
  end: weighted(
    [4, fc.constant('keeps' as const)],
    [2, fc.constant('closes' as const)],
    [1, fc.constant('resets' as const)],
  ),
})

/** Every script comes to an end: the gateway would wait for others until its time-out. */
export const scripts: fc.Arbitrary<Script> = drawn.map((draft) => {
  const text = answerText(draft)
  const bytes = draft.byte === undefined ? text : withByte(text, draft.byte)
  return settled({ method: draft.method, steps: cut(bytes, draft.cuts, 'TOKEN'), end: draft.end })
})

/** A backend closes the connection behind what nobody can tell to be at its end. */
function settled({ method, steps, end }: Script): Script {
  const text = steps.filter((step) => typeof step === 'string').join('')
  const { whole, isSound, isUnfinished } = readAnswer(text, method === 'HEAD', end)
  const isOpen = end === 'keeps' && (whole === undefined || !isSound || isUnfinished)
  return { method, steps, end: isOpen ? 'closes' : end }
}

function answerText({
  status,
  framing,
  content,
  fields,
  mutations: applied,
}: Drawn<typeof drawn>): string {
  const draft: Draft = {
    interim: '',
    version: 'HTTP/1.1',
    status,
    reason: 'Scripted',
    fields: ['X-Token: TOKEN', ...fields.map((n) => pick(FIELDS, n))],
    framing:
      framing === 'length'
        ? [`Content-Length: ${content.length}`]
        : framing === 'chunked'
          ? [content.length % 2 === 0 ? 'Transfer-Encoding: chunked' : 'transfer-encoding:Chunked']
          : [],
    body: framing === 'chunked' ? chunked(content) : content,
    surplus: '',
  }
  for (const [name, n] of applied) mutations[name]?.(draft, n)
  const { interim, version, reason, surplus, body } = draft
  const lines = [`${version} ${draft.status} ${reason}`, ...draft.fields, ...draft.framing, '', '']
  return interim + lines.join('\r\n') + body + surplus
}

function withByte(text: string, n: number): string {
  const at = n % (text.length + 1)
  const kind = (n >> 12) % 3
  const byte = pick(['\r', '\n', '\0', ' ', ':', '\xff', '1', ';'], n >> 14)
  return text.slice(0, at) + (kind === 0 ? '' : byte) + text.slice(kind === 1 ? at : at + 1)
}
