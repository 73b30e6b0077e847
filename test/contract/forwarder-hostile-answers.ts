/** Answers that must not be passed on, must not hang or crash, and must not leak into the next client's answer. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, closeConnection, resetConnection, until } from '../support/raw-backend.ts'
import { type Answer } from '../support/raw-backend.ts'
import type { Stage } from './forwarding.ts'

const ok = 'HTTP/1.1 200 OK\r\n'
const brokenHeads: [string, Answer][] = [
  ['status 099', 'HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n'],
  ['status 600', 'HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n'],
  ['a 101', 'HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'],
  [
    'Content-Length and chunked',
    `${ok}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  ],
  ['two Content-Lengths', `${ok}Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd`],
  ['a signed Content-Length', `${ok}Content-Length: +3\r\n\r\nabc`],
  ['a huge Content-Length', `${ok}Content-Length: 99999999999999999999\r\n\r\nabc`],
  ['an unknown transfer coding', [`${ok}Transfer-Encoding: gzip\r\n\r\nabc`, closeConnection]],
  ['garbage', 'SSH-2.0-OpenSSH_9.6\r\n'],
  ['a space in a name', `${ok}X A: 1\r\nContent-Length: 0\r\n\r\n`],
  ['a NUL in a value', `${ok}X-A: a\0b\r\nContent-Length: 0\r\n\r\n`],
  ['a folded field', `${ok}X-A: a\r\n b\r\nContent-Length: 0\r\n\r\n`],
  ['thousands of fields', `${ok}${'X-A: a\r\n'.repeat(3_000)}Content-Length: 0\r\n\r\n`],
  ['an interim answer and an end', ['HTTP/1.1 102 Wait\r\n\r\n', closeConnection]],
  ['half a head and a reset', [`${ok}X-A: 1\r\nX-`, 20, resetConnection]],
  ['nothing, then the end', [closeConnection]],
  ['a head without end', `${ok}${'X-Long: 0123456789\r\n'.repeat(10_000)}`],
  ['a field without end', `${ok}X-Long: ${'0123456789'.repeat(20_000)}`],
]

const cutOff: [string, Answer][] = [
  ['a known length and an end', [`${ok}Content-Length: 10\r\n\r\nhalf`, 20, closeConnection]],
  [
    'a known length, Connection: close and an end',
    [`${ok}Connection: close\r\nContent-Length: 10\r\n\r\nhalf`, 20, closeConnection],
  ],
  [
    'chunks and an end',
    [`${ok}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n`, 20, closeConnection],
  ],
  [
    'chunks and a reset',
    [`${ok}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n`, 20, resetConnection],
  ],
  ['a bad chunk size', `${ok}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nxyz\r\n`],
  ['no length and a reset', [`${ok}\r\nhalf`, 20, resetConnection]],
]

const evil = `${ok}Content-Length: 4\r\n\r\nevil`
const poison: [string, string, Answer][] = [
  [
    'a body on 204 with its length',
    'GET',
    `HTTP/1.1 204 No Content\r\nContent-Length: ${evil.length}\r\n\r\n${evil}`,
  ],
  [
    'a late body in the answer to HEAD',
    'HEAD',
    [`${ok}Content-Length: ${evil.length}\r\n\r\n`, 20, evil],
  ],
  ['a second answer at once', 'GET', `${ok}Content-Length: 2\r\n\r\nok${evil}`],
  ['a second answer a little later', 'GET', [`${ok}Content-Length: 2\r\n\r\nok`, 20, evil]],
  [
    'a second answer after the last chunk',
    'GET',
    `${ok}Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n${evil}`,
  ],
]

export function describeHostileAnswers({ open }: Stage): void {
  const openHostile = (hostile: Answer, connections = 8) =>
    open(({ target }) => (target === '/next' ? answer(200, 'next') : hostile), { connections })

  describe('a hostile answer', () => {
    it.each(brokenHeads)(
      'is broken when it is %s, and its connection is given up',
      async (_, hostile) => {
        const { backend, front } = await openHostile(hostile)
        const outcome = await front.get('/')
        expect(outcome.calls).toEqual(['fail'])
        expect(outcome.failure?.kind).toBe('broken')
        await until(() => backend.openConnections() === 0, 'the backend connection to close')
        expect((await front.get('/next')).body).toBe('next')
        expect(backend.requests).toHaveLength(2)
      },
    )

    it.each(cutOff)('that is cut off does not look complete: %s', async (_, hostile) => {
      const { backend, front } = await openHostile(hostile)
      const outcome = await front.get('/')
      expect(outcome.status).toBe(200)
      expect(outcome.calls.at(-1)).toBe('fail')
      expect(outcome.failure?.kind).toBe('broken')
      expect((await front.get('/next')).body).toBe('next')
      expect(backend.requests).toHaveLength(2)
    })

    it.each(poison)('does not become the next answer: %s', async (_, method, hostile) => {
      const { backend, front } = await openHostile(hostile, 1)
      await front.get('/', { method })
      if (Array.isArray(hostile)) await sleep(100)
      expect(await front.get('/next')).toMatchObject({ status: 200, body: 'next' })
      expect(backend.connections).toHaveLength(2)
      expect(backend.problems()).toEqual([])
    })

    it('of control bytes in the reason phrase does no harm', async () => {
      const { front } = await openHostile('HTTP/1.1 200 O\x07K\x1b\r\nContent-Length: 2\r\n\r\nok')
      expect((await front.get('/')).calls.at(-1)).toMatch(/^(end|fail)$/)
      expect((await front.get('/next')).body).toBe('next')
    })

    it('of interim answers without end fails as response_timeout', async () => {
      const drip = ['HTTP/1.1 102 Processing\r\n\r\n', 50] as const
      const { backend, front } = await openHostile(Array.from({ length: 200 }, () => drip).flat())
      const outcome = await front.get('/', { responseTimeoutMs: 400 })
      expect(outcome.calls).toEqual(['fail'])
      expect(outcome.failure?.kind).toBe('response_timeout')
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
    })
  })
}
