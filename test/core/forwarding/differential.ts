/**
 * Hostile and ordinary answers, cut into random pieces: what the client of Node.js refuses is refused, and what both take
 * is the same: a sample of each in `npm test`, many in `npm run proof`.
 */
import * as fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { createDirectEngine } from '../../../src/core/forwarding/direct/forwarder.ts'
import { createHttpProxyEngine } from '../../../src/core/forwarding/http-proxy-3/forwarder.ts'
import { stageOf, type Front, type Outcome } from '../../contract/forwarding.ts'
import { answer, closeConnection, startRawBackend, until } from '../../support/raw-backend.ts'
import type { AnswerStep, RawBackend, RecordedRequest } from '../../support/raw-backend.ts'

interface Case {
  readonly method: 'GET' | 'HEAD'
  /** latin1. */
  readonly answer: string
  /** Where the answer is cut into pieces, as shares of its length. */
  readonly cuts: readonly number[]
}

const scripts = new Map<string, readonly AnswerStep[]>()
const timeouts = { connectMs: 5_000, responseMs: 20_000, idleMs: 5_000 }
let backend: RawBackend
let direct: Front
let node: Front

let count = 0

interface Play {
  readonly method: string
  readonly script: readonly AnswerStep[]
  readonly responseTimeoutMs: number
}

async function play(engine: Front, { method, script, responseTimeoutMs }: Play) {
  const target = `/${count++}`
  scripts.set(target, script)
  const outcome = engine.send(target, { method, responseTimeoutMs })
  await until(() => outcome.settled, `an outcome of ${JSON.stringify(script)}`)
  scripts.delete(target)
  return outcome
}

/** Every answer is followed by the end of the connection, so that none is waited for. */
function ask(engine: Front, { method, answer: text, cuts }: Case): Promise<Outcome> {
  const at = cuts.map((share) => Math.floor(share * text.length)).toSorted((a, b) => a - b)
  const pieces = [0, ...at].map((from, index) => text.slice(from, at[index] ?? text.length))
  const script: AnswerStep[] = [...pieces.flatMap((piece) => [piece, 0]), closeConnection]
  return play(engine, { method, script, responseTimeoutMs: 20_000 })
}

const told = ({ status, headers, body }: Outcome) => ({ status, headers, body })

async function compare(each: Case): Promise<{ accepted: boolean }> {
  const [ours, theirs] = await Promise.all([ask(direct, each), ask(node, each)])
  const taken = (outcome: Outcome): boolean => outcome.calls.at(-1) === 'end'
  if (ours.calls[0] === 'head') {
    expect(theirs.calls[0], `Node.js refuses the head of ${JSON.stringify(each)}`).toBe('head')
    expect(told(ours).headers, JSON.stringify(each)).toEqual(told(theirs).headers)
  }
  if (taken(ours)) {
    expect(taken(theirs), `Node.js refuses ${JSON.stringify(each)}`).toBe(true)
    expect(told(ours), JSON.stringify(each)).toEqual(told(theirs))
  }
  return { accepted: taken(ours) }
}

/** Cases that are tried at the same time. */
const batch = <Item>(each: fc.Arbitrary<Item>) => fc.array(each, { minLength: 16, maxLength: 16 })

const method = fc.constantFrom('GET' as const, 'GET' as const, 'GET' as const, 'HEAD' as const)
const cuts = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 4 })
const token = fc.stringMatching(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,12}$/)
const value = fc.stringMatching(/^[\t\x20-\x7e\x80-\xff]{0,30}$/)
const ordinaryName = token.filter(
  (name) =>
    !/^(host|content-length|transfer-encoding|connection|keep-alive|upgrade|expect)$/i.test(name),
)
const anyBytes = (minLength: number, maxLength: number) =>
  fc.uint8Array({ minLength, maxLength }).map((bytes) => Buffer.from(bytes).toString('latin1'))
const body = anyBytes(0, 60)
const fields = fc.array(
  fc.tuple(ordinaryName, value).map(([name, text]) => `${name}:${text}\r\n`),
  { maxLength: 5 },
)

const chunks = fc
  .array(fc.tuple(body, fc.constantFrom('', ';a', ';a=b', ';a="b;c"', ';a=b;c=d')), {
    maxLength: 4,
  })
  .map((pieces) =>
    pieces
      .filter(([piece]) => piece !== '')
      .map(([piece, extension]) => `${piece.length.toString(16)}${extension}\r\n${piece}\r\n`)
      .join(''),
  )

const framedBody = fc.oneof(
  body.map((text) => `Content-Length: ${text.length}\r\n\r\n${text}`),
  chunks.map((text) => `Transfer-Encoding: chunked\r\n\r\n${text}0\r\n\r\n`),
  chunks.map((text) => `transfer-encoding:Chunked\r\n\r\n${text}0\r\nX-Trailer: t\r\n\r\n`),
  body.map((text) => `Connection: close\r\n\r\n${text}`),
)

const soundAnswer = fc
  .tuple(
    fc.constantFrom('1.1', '1.1', '1.0'),
    fc.constantFrom(200, 200, 201, 204, 304, 404, 500, 599),
    fc.constantFrom(' OK', ' ', ' Not quite: so \xe9'),
    fields,
    framedBody,
  )
  .filter(([version, , , , framed]) => version === '1.1' || !/^transfer/i.test(framed))
  .map(
    ([version, status, reason, lines, framed]) =>
      `HTTP/${version} ${status}${reason}\r\n${lines.join('')}${framed}`,
  )

const nastyBytes = [
  ['\r', '\n', '\r\n', '\r\n\r\n', '\n\n', '\0', ' ', '\t', '\v', '\u0001', '\u007f', '\u0080'],
  Array.from(':;,"\\0159g\u00ff'),
  '-1 +1 0x1 1e1 00 007 ffffffffffffffff 18446744073709551616'.split(' '),
  'HTTP/1.1 HTTP/1.0 HTTP/2.0 200 204 304 999 chunked close'.split(' '),
].flat()
const nastyLines = [
  ['Content-Length: 3', 'Content-Length: 0', 'content-length:5 ', 'Content-Length: 3, 3'],
  ['Content-Length:', 'Transfer-Encoding: chunked', 'Transfer-Encoding: gzip, chunked'],
  ['Transfer-Encoding: identity', 'Transfer-Encoding: chunked, chunked', 'Transfer-Encoding:'],
  ['Transfer-Encoding: chunked ', 'Transfer-Encoding: \tchunked', 'Transfer_Encoding: chunked'],
  ['Connection: close', 'Connection: keep-alive', 'Connection: upgrade\r\nUpgrade: x'],
  ['Keep-Alive: timeout=1', 'X: 1', ' folded', 'X : 1', ': 1', 'X', 'X:', 'HTTP/1.1 200 OK'],
  ['0\r\n', '1', '3;a', '3 ;a', '3; a', '3;', '3;a=', '3;a="'],
]
  .flat()
  .map((line) => `${line}\r\n`)
const nasty = fc.constantFrom(...nastyBytes, ...nastyLines)

/** Changes to a sound answer. */
const change = fc.oneof(
  fc.record({ kind: fc.constant('insert' as const), at: fc.nat(400), text: nasty }),
  fc.record({ kind: fc.constant('insert' as const), at: fc.nat(400), text: anyBytes(1, 3) }),
  fc.record({ kind: fc.constant('line' as const), at: fc.nat(8), text: nasty }),
  fc.record({ kind: fc.constant('replace' as const), at: fc.nat(400), text: nasty }),
  fc.record({
    kind: fc.constant('delete' as const),
    at: fc.nat(400),
    text: fc.constantFrom('1', '12', '1234'),
  }),
)

type Change = typeof change extends fc.Arbitrary<infer Made> ? Made : never

function changed(answer: string, { kind, at, text }: Change): string {
  if (kind === 'line') {
    // In front of a line: most of what matters is decided there.
    const lines = answer.split('\r\n')
    const index = at % lines.length
    return [...lines.slice(0, index), text + (lines[index] ?? ''), ...lines.slice(index + 1)].join(
      '\r\n',
    )
  }
  const place = at % (answer.length + 1)
  if (kind === 'insert') return answer.slice(0, place) + text + answer.slice(place)
  const rest = answer.slice(place + text.length)
  return answer.slice(0, place) + (kind === 'replace' ? text : '') + rest
}

const hostileAnswer = fc
  .tuple(soundAnswer, fc.array(change, { minLength: 1, maxLength: 3 }))
  .map(([answer, changes]) => changes.reduce(changed, answer))

const request = fc.record({
  method: fc.constantFrom('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'),
  target: fc.stringMatching(/^\/[!-~]{0,30}$/).filter((target) => !target.includes('#')),
  fields: fc.array(
    fc.tuple(
      // These often come twice.
      fc.oneof(ordinaryName, fc.constantFrom('Cookie', 'cookie')),
      value,
    ),
    { maxLength: 6 },
  ),
  pieces: fc.array(anyBytes(1, 40), { maxLength: 4 }),
  framing: fc.constantFrom('none', 'length', 'chunks'),
})

/** Without what is each connection's own, and in what place a chunked body is announced. */
const seen = ({ method: verb, target, headers, framing, body: sent }: RecordedRequest) => ({
  verb,
  target,
  framing,
  body: sent.toString('latin1'),
  fields: headers.flatMap((name, at) =>
    at % 2 === 0 && !/^(connection|transfer-encoding)$/i.test(name)
      ? [`${name}: ${headers[at + 1]}`]
      : [],
  ),
})

function asBytes({ method: verb, target, fields: lines, pieces, framing }: Request): string {
  const head = [`${verb} ${target} HTTP/1.1`, ...lines.map(([name, text]) => `${name}: ${text}`)]
  if (framing === 'none') return `${head.join('\r\n')}\r\n\r\n`
  const whole = pieces.join('')
  if (framing === 'length')
    return `${[...head, `Content-Length: ${whole.length}`].join('\r\n')}\r\n\r\n${whole}`
  const inChunks = pieces.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`).join('')
  return `${[...head, 'Transfer-Encoding: chunked'].join('\r\n')}\r\n\r\n${inChunks}0\r\n\r\n`
}

type Request = typeof request extends fc.Arbitrary<infer Made> ? Made : never

export interface Runs {
  readonly sound: number
  readonly hostile: number
  /** Hostile answers, each with a request behind it. */
  readonly next: number
  readonly requests: number
}

/** So many cases of each kind; without a seed, others each time. */
export function compareEngines(runs: Runs, seed?: number): void {
  const seeded = seed === undefined ? {} : { seed }
  beforeAll(async () => {
    backend = await startRawBackend({ respond: ({ target }) => scripts.get(target) })
    direct = stageOf(createDirectEngine).front([backend.url], { connections: 64, timeouts })
    node = stageOf(createHttpProxyEngine).front([backend.url], { connections: 64, timeouts })
  })

  describe('an answer as it should be', () => {
    it('is taken by both engines, and is the same to both', async () => {
      await fc.assert(
        fc.asyncProperty(batch(fc.record({ method, answer: soundAnswer, cuts })), async (cases) => {
          const results = await Promise.all(cases.map(compare))
          for (const [at, { accepted }] of results.entries())
            expect(accepted, JSON.stringify(cases[at])).toBe(true)
        }),
        { numRuns: runs.sound, ...seeded, endOnFailure: true },
      )
    })
  })

  describe('an answer that was tampered with', () => {
    it('is refused wherever Node.js refuses it, and else is the same to both', async () => {
      let accepted = 0
      let refused = 0
      await fc.assert(
        fc.asyncProperty(
          batch(fc.record({ method, answer: hostileAnswer, cuts })),
          async (cases) => {
            for (const each of await Promise.all(cases.map(compare))) {
              if (each.accepted) accepted++
              else refused++
            }
          },
        ),
        { numRuns: runs.hostile, ...seeded, endOnFailure: true },
      )
      // Or nothing would have been compared.
      expect(Math.min(accepted, refused)).toBeGreaterThan(runs.hostile)
    })

    it('never becomes the answer to the next request', async () => {
      await fc.assert(
        fc.asyncProperty(batch(fc.record({ method, answer: hostileAnswer })), async (cases) => {
          await Promise.all(
            cases.map(async ({ method: first, answer: hostile }) => {
              const engine = stageOf(createDirectEngine).front([backend.url], { connections: 1 })
              // In one piece, and the connection stays: what is too much comes with what is not.
              await play(engine, { method: first, script: [hostile], responseTimeoutMs: 50 })
              const sound = answer(200, 'sound')
              const next = await play(engine, {
                method: 'GET',
                script: [sound],
                responseTimeoutMs: 20_000,
              })
              expect(next, JSON.stringify(hostile)).toMatchObject({ status: 200, body: 'sound' })
              await engine.forwarder.close()
            }),
          )
        }),
        { numRuns: runs.next, ...seeded, endOnFailure: true },
      )
    })
  })

  describe('a request', () => {
    it('is the same to a strict reader through both engines', async () => {
      await fc.assert(
        fc.asyncProperty(request, async (each) => {
          const path = `/${count++}${each.target}`
          scripts.set(path, [answer(200, 'ok')])
          const before = backend.requests.length
          for (const front of [direct, node]) await front.run(asBytes({ ...each, target: path }))
          const [one, two] = backend.requests.slice(before)
          expect(one && seen(one)).toEqual(two && seen(two))
          expect(one?.target).toBe(path)
          if (each.framing !== 'none')
            expect(one?.body.toString('latin1')).toBe(each.pieces.join(''))
          scripts.delete(path)
        }),
        { numRuns: runs.requests, ...seeded },
      )
    })
  })
}
