/** What the pipeline is told of the backend's answer. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, closeConnection, until } from '../support/raw-backend.ts'
import type { Stage } from './forwarding.ts'

const mebibyte = 1024 * 1024
const half = 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf'

export function describeAnswers({ open }: Stage): void {
  describe('the answer', () => {
    it('is told as head, data and end, none of it before forward has returned, its header fields as received', async () => {
      const fields = ['Set-Cookie: a=1', 'X-Odd: caf\xe9', 'Set-Cookie: b=2; Path=/', 'x-empty:']
      const { front } = await open(() => answer(201, 'made', ...fields))
      const outcome = await front.get('/')
      expect(outcome).toMatchObject({ calls: ['head', 'data', 'end'], calledEarly: false })
      expect(outcome.status).toBe(201)
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
      const { front } = await open(({ target }) =>
        target === '/next' ? answer(200, 'next') : bytes,
      )
      expect((await front.get('/', { method })).calls).toEqual(['head', 'end'])
      expect((await front.get('/next')).body).toBe('next')
    })

    it('may be chunked, in pieces, with extensions and trailers', async () => {
      const { front } = await open(() => [
        'HTTP/1.1 200 OK\r\nTransfer-Enc',
        5,
        'oding: chunked\r\n\r\n3;x=y\r\nab',
        5,
        'c\r\n2\r\nde\r\n0\r\nX-Trailer: t\r\n\r\n',
      ])
      const outcome = await front.get('/')
      expect(outcome.body).toBe('abcde')
      expect(outcome.calls.at(-1)).toBe('end')
    })

    it('may end with the connection', async () => {
      const { front } = await open(() => [
        'HTTP/1.0 200 OK\r\n\r\nall of ',
        20,
        'it',
        closeConnection,
      ])
      expect(await front.get('/')).toMatchObject({ status: 200, body: 'all of it' })
    })

    // RFC 9110 section 15.2: a client takes interim answers that it has not asked for.
    it('may follow interim answers, which are not told', async () => {
      const hints = 'HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n'
      const interim = `HTTP/1.1 102 Processing\r\n\r\n${hints}HTTP/1.1 100 Continue\r\n\r\n`
      const { backend, front } = await open(() => [interim, 10, interim, answer(200, 'ok')])
      const outcome = await front.run('POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi')
      expect(outcome).toMatchObject({ calls: ['head', 'data', 'end'], status: 200, body: 'ok' })
      expect(backend.requests).toHaveLength(1)
    })

    it('is not read faster than the client takes it, who may pause at every piece', async () => {
      const body = Buffer.alloc(16 * mebibyte, 'x')
      const { front } = await open(() => answer(200, body))
      const outcome = front.send('/', { responseTimeoutMs: 1_500 })
      outcome.accepts = false
      await until(() => outcome.bodyBytes > 0, 'the first piece')
      const afterFirst = outcome.bodyBytes
      // Longer than the response timeout: it is the client who is slow here, not the backend.
      await sleep(2_200)
      expect(outcome.bodyBytes).toBe(afterFirst)
      expect(afterFirst).toBeLessThan(mebibyte)
      expect(outcome.settled).toBe(false)
      const resume = setInterval(() => outcome.handle?.resume(), 1)
      await outcome.over
      clearInterval(resume)
      expect(outcome.failure).toBeUndefined()
      expect(outcome.bodyBytes).toBe(body.length)
    })

    it.each([
      ['none comes', undefined, []],
      ['it stops in the middle', half, ['head', 'data']],
    ])('fails as response_timeout when %s', async (_, bytes, told) => {
      const { backend, front } = await open(() => bytes)
      const outcome = await front.get('/', { responseTimeoutMs: 300 })
      expect(outcome.calls).toEqual([...told, 'fail'])
      expect(outcome.failure?.kind).toBe('response_timeout')
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
      expect(backend.requests).toHaveLength(1)
    })

    it('is not late while the client is still sending its body', async () => {
      const { front } = await open()
      const { client, outcome } = await front.start(
        'POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nab',
        { responseTimeoutMs: 1_500 },
      )
      await sleep(2_200)
      client.send('cd')
      await outcome.over
      expect(outcome).toMatchObject({ status: 200, failure: undefined })
    })

    it.each([
      ['before it', undefined, []],
      ['in the middle of it', half, ['head', 'data']],
    ])('ends at once when the exchange is aborted %s: no more is told', async (_, bytes, told) => {
      const { backend, front } = await open(() => bytes)
      const outcome = front.send('/')
      await until(() => backend.requests.length === 1, 'the request')
      await until(() => outcome.calls.length === told.length, 'what comes of the answer')
      outcome.handle?.abort()
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
      await sleep(50)
      outcome.handle?.abort()
      outcome.handle?.resume()
      expect(outcome.calls).toEqual(told)
      expect(backend.requests).toHaveLength(1)
    })
  })
}
