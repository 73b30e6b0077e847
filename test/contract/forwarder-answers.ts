/** What the pipeline is told of the backend's answer. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, closeConnection, until } from '../support/raw-backend.ts'
import type { Stage } from './forwarder.ts'

const mebibyte = 1024 * 1024

export function describeAnswers({ backend: startBackend, front: startFront }: Stage): void {
  describe('the answer', () => {
    it('is told as head, data and end, none of it before forward has returned', async () => {
      const backend = await startBackend()
      const front = await startFront([backend])
      const outcome = await front.get('/')
      expect(outcome.calls).toEqual(['head', 'data', 'end'])
      expect(outcome.calledEarly).toBe(false)
    })

    it('keeps header fields as received: order, spelling, duplicates, latin1', async () => {
      const fields = ['Set-Cookie: a=1', 'X-Odd: caf\xe9', 'Set-Cookie: b=2; Path=/', 'x-empty:']
      const backend = await startBackend({ respond: () => answer(201, 'made', ...fields) })
      const front = await startFront([backend])
      const outcome = await front.get('/')
      expect(outcome.status).toBe(201)
      expect(outcome.all('Set-Cookie')).toEqual(['a=1', 'b=2; Path=/'])
      const pairs = [
        ['Set-Cookie', 'a=1'],
        ['X-Odd', 'caf\xe9'],
        ['Set-Cookie', 'b=2; Path=/'],
      ]
      expect(outcome.headers).toEqual([...pairs.flat(), 'x-empty', '', 'Content-Length', '4'])
    })

    it.each([
      ['204', 'GET', 'HTTP/1.1 204 No Content\r\n\r\n'],
      [
        '304 with the length of what it stands for',
        'GET',
        'HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n',
      ],
      ['the answer to HEAD with a length', 'HEAD', 'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n'],
      [
        'the answer to HEAD with a coding',
        'HEAD',
        'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
      ],
      ['an empty 200', 'GET', 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'],
    ])('%s ends without a body', async (_, method, bytes) => {
      const backend = await startBackend({
        respond: ({ target }) => (target === '/next' ? answer(200, 'next') : bytes),
      })
      const front = await startFront([backend])
      const outcome = await front.run(`${method} / HTTP/1.1\r\n\r\n`)
      expect(outcome.calls).toEqual(['head', 'end'])
      expect((await front.get('/next')).body).toBe('next')
    })

    it('may be chunked, in pieces, with extensions and trailers', async () => {
      const backend = await startBackend({
        respond: () => [
          'HTTP/1.1 200 OK\r\nTransfer-Enc',
          5,
          'oding: chunked\r\n\r\n3;x=y\r\nab',
          5,
          'c\r\n2\r\nde\r\n0\r\nX-Trailer: t\r\n\r\n',
        ],
      })
      const front = await startFront([backend])
      const outcome = await front.get('/')
      expect(outcome.body).toBe('abcde')
      expect(outcome.calls.at(-1)).toBe('end')
    })

    it('may end with the connection', async () => {
      const backend = await startBackend({
        respond: () => ['HTTP/1.0 200 OK\r\n\r\nall of ', 20, 'it', closeConnection],
      })
      const front = await startFront([backend])
      expect(await front.get('/')).toMatchObject({ status: 200, body: 'all of it' })
    })

    it('may follow interim answers, which are not told', async () => {
      const interim =
        'HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
      const backend = await startBackend({
        respond: () => [interim, 10, interim, answer(200, 'ok')],
      })
      const front = await startFront([backend])
      const outcome = await front.get('/')
      expect(outcome.calls).toEqual(['head', 'data', 'end'])
      expect(outcome).toMatchObject({ status: 200, body: 'ok' })
    })

    it('may follow a 100 that nobody asked for', async () => {
      const backend = await startBackend({
        respond: () => ['HTTP/1.1 100 Continue\r\n\r\n', answer(200, 'ok')],
      })
      const front = await startFront([backend])
      const outcome = await front.run('POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi')
      // RFC 9110 section 15.2: a client takes interim answers it has not asked for.
      expect(outcome.body).toBe('ok')
      expect(backend.requests).toHaveLength(1)
    })

    it('is not read faster than the client takes it', async () => {
      const body = Buffer.alloc(16 * mebibyte, 'x')
      const backend = await startBackend({ respond: () => answer(200, body) })
      const front = await startFront([backend])
      const { outcome } = await front.start('GET / HTTP/1.1\r\n\r\n', { responseTimeoutMs: 1_500 })
      outcome.accepts = false
      await until(() => outcome.bodyBytes > 0, 'the first piece')
      const afterFirst = outcome.bodyBytes
      // Longer than the response timeout: it is the client who is slow here, not the backend.
      await sleep(2_200)
      expect(outcome.bodyBytes).toBe(afterFirst)
      expect(afterFirst).toBeLessThan(mebibyte)
      expect(outcome.settled).toBe(false)
      outcome.accepts = true
      outcome.handle?.resume()
      await until(() => outcome.settled, 'the rest', 25_000)
      expect(outcome.failure).toBeUndefined()
      expect(outcome.bodyBytes).toBe(body.length)
    })

    it('can be paused at every piece and still comes whole', async () => {
      const body = Buffer.alloc(4 * mebibyte, 'y')
      const backend = await startBackend({ respond: () => answer(200, body) })
      const front = await startFront([backend])
      const { outcome } = await front.start('GET / HTTP/1.1\r\n\r\n')
      outcome.accepts = false
      const resume = setInterval(() => outcome.handle?.resume(), 1)
      try {
        await until(() => outcome.settled, 'the end', 25_000)
      } finally {
        clearInterval(resume)
      }
      expect(outcome.failure).toBeUndefined()
      expect(outcome.bodyBytes).toBe(body.length)
    })

    it('fails as response_timeout when none comes', async () => {
      const backend = await startBackend({ respond: () => undefined })
      const front = await startFront([backend])
      const outcome = await front.get('/', { responseTimeoutMs: 300 })
      expect(outcome.calls).toEqual(['fail'])
      expect(outcome.failure?.kind).toBe('response_timeout')
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
      expect(backend.requests).toHaveLength(1)
    })

    it('fails as response_timeout when it stops in the middle', async () => {
      const backend = await startBackend({
        respond: () => 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf',
      })
      const front = await startFront([backend])
      const outcome = await front.get('/', { responseTimeoutMs: 300 })
      expect(outcome.calls).toEqual(['head', 'data', 'fail'])
      expect(outcome.failure?.kind).toBe('response_timeout')
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
    })

    it('is not late while the client is still sending its body', async () => {
      const backend = await startBackend()
      const front = await startFront([backend])
      const { client, outcome } = await front.start(
        'POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nab',
        { responseTimeoutMs: 1_500 },
      )
      await sleep(2_200)
      client.send('cd')
      await until(() => outcome.settled)
      expect(outcome).toMatchObject({ status: 200, failure: undefined })
    })

    it('ends at once when the exchange is aborted in mid-answer, and nothing more is told', async () => {
      const backend = await startBackend({
        respond: () => 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf',
      })
      const front = await startFront([backend])
      const { outcome } = await front.start('GET / HTTP/1.1\r\n\r\n')
      await until(() => outcome.body === 'half', 'half the answer')
      outcome.handle?.abort()
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
      await sleep(50)
      expect(outcome.calls).toEqual(['head', 'data'])
      outcome.handle?.abort()
      outcome.handle?.resume()
    })

    it('is not waited for once the exchange is aborted', async () => {
      const backend = await startBackend({ respond: () => undefined })
      const front = await startFront([backend])
      const { outcome } = await front.start('GET / HTTP/1.1\r\n\r\n')
      await until(() => backend.requests.length === 1, 'the request')
      outcome.handle?.abort()
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
      await sleep(50)
      expect(outcome.calls).toEqual([])
      expect(backend.requests).toHaveLength(1)
    })
  })
}
