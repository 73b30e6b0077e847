/** What a client may say on one connection: requests, well formed and nearly so, cut into packets, and how it ends. */
import * as fc from 'fast-check'
import { weighted, type Drawn } from '../support/drawn.ts'
import * as words from './client-words.ts'
import { anyNumber, chunked, cut, cutsAtMost, framingMutations, oneOrTwo, pick } from './grammar.ts'
import type { FramedDraft, Mutation, Step } from './grammar.ts'

/** One request before it is written down; mutations change it in place. */
interface Draft extends FramedDraft {
  /** In front of the request line. */
  before: string
  method: string
  target: string
  version: string
  /** Between the three parts of the request line. */
  gaps: [string, string]
  host: string[]
  fields: string[]
  /** Line end behind each of the first lines, where it is not CRLF. */
  lineEnds: Map<number, string>
}

/** patient: waits for all answers. halfClose: ends its side at once. leaves: destroys the connection at once. */
export type Ending = 'patient' | 'halfClose' | 'leaves'

export interface Conversation {
  readonly steps: readonly Step[]
  readonly ending: Ending
}

export interface ClientKeys {
  readonly valid: readonly string[]
  readonly expired: string
}

const at = (n: number, length: number): number => (length === 0 ? 0 : n % length)
/** Puts the line somewhere among the fields. */
const insert = (draft: Draft, line: string, n: number): void =>
  void draft.fields.splice(at(n >> 4, draft.fields.length + 1), 0, line)

const mutations: Readonly<Record<string, Mutation<Draft>>> = {
  method: (draft, n) => (draft.method = pick(words.METHODS, n)),
  target: (draft, n) => (draft.target = pick(words.TARGETS, n)),
  version: (draft, n) => (draft.version = pick(words.VERSIONS, n)),
  'gap in the request line': (draft, n) => (draft.gaps[n & 1] = pick(words.GAPS, n >> 1)),
  'in front of the request': (draft, n) => (draft.before = pick(words.BEFORE, n)),
  'line end': (draft, n) => draft.lineEnds.set(at(n >> 4, 4), pick(words.LINE_ENDS, n)),
  'odd line': (draft, n) => insert(draft, pick(words.LINES, n), n),
  'more framing': (draft, n) => insert(draft, pick(words.FRAMING, n), n),
  ...framingMutations,
  host: (draft, n) => (draft.host = [...pick(words.HOSTS, n)]),
  'body too long': (draft, n) => (draft.body += pick(['x', '\r\n', '\0', 'xyz'], n)),
  'body too short': (draft, n) => (draft.body = draft.body.slice(0, at(n, draft.body.length))),
  'long target': (draft, n) => (draft.target += 'a'.repeat(pick([300, 500, 520, 3_000], n))),
  'long field': (draft, n) =>
    insert(draft, `X-Long: ${'a'.repeat(pick([900, 1_800, 3_000, 9_000], n))}`, n),
  'many fields': (draft, n) => {
    for (let count = 0; count < pick([10, 25, 40, 200], n); count++)
      draft.fields.push(`X-${count}: a`)
  },
  'line twice': (draft, n) => {
    const lines = [...draft.host, ...draft.fields, ...draft.framing]
    insert(draft, pick(lines, n), n)
  },
  'large body': (draft, n) => {
    const bytes = pick([256, 1_000, 4_000, 4_096, 4_097, 9_000], n)
    const content = 'y'.repeat(bytes)
    const isChunked = n % 2 === 1
    draft.framing = [isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${bytes}`]
    draft.body = isChunked ? `${bytes.toString(16)}\r\n${content}\r\n0\r\n\r\n` : content
  },
}

/** Of the whole connection, as bytes. */
const byteMutations: Readonly<Record<string, (text: string, n: number) => string>> = {
  'byte put in': (text, n) =>
    splice(
      text,
      n,
      0,
      pick(['\r', '\n', '\0', ' ', '\t', ':', '\xff', '\r\n', ',', '0', '\x7f'], n >> 12),
    ),
  'byte replaced': (text, n) =>
    splice(text, n, 1, pick(['\r', '\n', '\0', ' ', '\t', ':', '\xff', '-', 'A', '1'], n >> 12)),
  'bytes lost': (text, n) => splice(text, n, 1 + ((n >> 12) % 3), ''),
  'cut off': (text, n) => text.slice(0, at(n, text.length)),
}
const splice = (text: string, n: number, lost: number, put: string): string =>
  text.slice(0, at(n, text.length)) + put + text.slice(at(n, text.length) + lost)

// prettier-ignore
const contents = ['', '{}', 'abc', 'GET /v1/pets/inner HTTP/1.1\r\nHost: x\r\n\r\n', '0\r\n\r\n', '\r\n\r\n', '\0\xff\x80', 'z'.repeat(300)]

const drawnRequest = fc.record({
  method: weighted(
    [4, fc.constantFrom('GET', 'POST')],
    [2, fc.constantFrom('HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS')],
  ),
  target: fc.constantFrom(
    '/v1/pets/ID',
    '/v1/pets?id=ID',
    '/v1/store/orders/ID',
    '/v1/any/ID?a=%2F&b=/../x',
    '/v1/pets/ID',
  ),
  keyAt: fc.nat(3),
  credential: weighted([6, fc.constant(undefined)], [1, anyNumber]),
  words: weighted(
    [5, fc.constant<number[]>([])],
    [4, fc.array(anyNumber, { minLength: 1, maxLength: 2 })],
  ),
  body: fc.record({
    kind: fc.constantFrom('none', 'length', 'chunked'),
    content: fc.constantFrom(...contents),
  }),
  mutations: weighted([6, fc.constant([])], [4, oneOrTwo(mutations)]),
})

const drawnConversation = fc.record({
  id: fc.nat(0xffffff),
  requests: fc.array(drawnRequest, { minLength: 1, maxLength: 8 }),
  bytes: weighted(
    [8, fc.constant([])],
    [1, fc.tuple(fc.tuple(fc.constantFrom(...Object.keys(byteMutations)), anyNumber))],
  ),
  cuts: cutsAtMost(12),
  ending: weighted(
    [12, fc.constant('patient' as const)],
    [1, fc.constantFrom('halfClose' as const, 'leaves' as const)],
  ),
})

/** Requests carry their own numbers, so that no two of them ask for the same. */
export const conversations = (keys: ClientKeys): fc.Arbitrary<Conversation> =>
  drawnConversation.map((conversation) => written(conversation, keys))

function written(drawn: Drawn<typeof drawnConversation>, keys: ClientKeys): Conversation {
  let text = drawn.requests
    .map((request, index) => requestText(request, `${drawn.id}-${index}`, keys))
    .join('')
  for (const [name, n] of drawn.bytes) text = byteMutations[name]?.(text, n) ?? text
  return { steps: cut(text, drawn.cuts), ending: drawn.ending }
}

function requestText(drawn: Drawn<typeof drawnRequest>, id: string, keys: ClientKeys): string {
  const key = pick(keys.valid, drawn.keyAt)
  const fill = (text: string): string =>
    text.replaceAll('KEY', key).replaceAll('EXPIRED', keys.expired)
  const credential =
    drawn.credential === undefined ? 'Bearer KEY' : pick(words.CREDENTIALS, drawn.credential)
  const { kind, content } = drawn.body
  const draft: Draft = {
    before: '',
    method: drawn.method,
    target: drawn.target.replace('ID', id),
    version: 'HTTP/1.1',
    gaps: [' ', ' '],
    host: ['Host: api.example'],
    fields: [
      ...(credential === '' ? [] : [`Authorization: ${fill(credential)}`]),
      ...drawn.words.map((n) => pick(words.WORDS, n)),
    ],
    lineEnds: new Map(),
    body: kind === 'none' ? '' : kind === 'length' ? content : chunked(content),
    framing:
      kind === 'none'
        ? []
        : [kind === 'length' ? `Content-Length: ${content.length}` : 'Transfer-Encoding: chunked'],
  }
  for (const [name, n] of drawn.mutations) mutations[name]?.(draft, n)
  const [first, second] = draft.gaps
  const lines = [
    `${draft.method}${first}${draft.target}${second}${draft.version}`,
    ...draft.host,
    ...draft.fields,
    ...draft.framing,
    '',
  ]
  const head = lines.map((line, index) => line + (draft.lineEnds.get(index) ?? '\r\n')).join('')
  return draft.before + head + draft.body
}
