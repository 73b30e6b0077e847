/** What reaches the backend: the same request, unambiguously framed, once. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, startRawBackend, until } from '../support/raw-backend.ts'
import type { Stage } from './forwarding.ts'

const mebibyte = 1024 * 1024
const chunked = (body: string): string => `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`

export function describeRequests({ open, front: startFront }: Stage): void {
  describe('the request', () => {
    it('carries its target byte for byte', async () => {
      const { backend, front } = await open()
      const targets = [
        ['/v1/a%20b?x=%7C&y=a/../b', '/v1/pets?', '/?', '/v1//pets//', '//v1/pets'],
        ['/v1/../pets/./x', '/v1/%2e%2e/pets', '/v1/pets?a=1?b=2&&c', "/v1/~:@!$&'()*+,;="],
        ['/v1/pets?x={|}[]^"<>`'],
      ].flat()
      for (const target of targets) await front.get(target)
      expect(backend.requests.map(({ target }) => target)).toEqual(targets)
      expect(backend.problems()).toEqual([])
    })

    it('is framed as its body is: not at all, by its length or in chunks, with no second request hidden in it', async () => {
      const { backend, front } = await open()
      const hidden = 'GET /admin HTTP/1.1\r\nHost: evil\r\n\r\n'
      const expected: unknown[] = []
      const send = async (method: string, rest: string, framing: string, body = '') => {
        await front.run(`${method} /pets HTTP/1.1\r\n${rest}`)
        expected.push([method, framing, body])
      }
      for (const method of ['GET', 'HEAD', 'DELETE', 'OPTIONS']) await send(method, '\r\n', 'none')
      for (const method of ['POST', 'PUT', 'PATCH'])
        for (const rest of ['\r\n', 'Content-Length: 0\r\n\r\n'])
          await send(method, rest, 'length 0')
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
        await send(method, 'Content-Length: 5\r\n\r\nhello', 'length 5', 'hello')
        await send(method, `Transfer-Encoding: chunked\r\n\r\n${chunked(hidden)}`, 'framed', hidden)
      }
      const seen = backend.requests.map(({ method, framing, body, header, all }) => {
        const length = framing === 'none' ? all('content-length')[0] : header('content-length')
        const how = length === undefined ? framing : `length ${length}`
        return [method, String(body) === hidden ? 'framed' : how, String(body)]
      })
      expect(seen).toEqual(expected)
      const framings = backend.requests.filter(({ body }) => String(body) === hidden)
      expect(framings.filter(({ framing }) => framing === 'none')).toEqual([])
      expect(backend.problems()).toEqual([])
    })

    it('passes a chunked body on while it is still being sent', async () => {
      const { backend, front } = await open()
      const { client, outcome } = await front.start(
        'POST /slow HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n',
      )
      await until(() => String(backend.connections[0]?.raw()).includes('abc'), 'the first chunk')
      expect(backend.requests).toEqual([])
      client.send('3\r\ndef\r\n0\r\n\r\n')
      await outcome.over
      expect(String(backend.requests[0]?.body)).toBe('abcdef')
    })

    it('stops reading from the client while the backend does not read, and loses nothing', async () => {
      const body = Buffer.concat(Array<Buffer>(32).fill(randomBytes(mebibyte)))
      const backend = await startRawBackend({ onConnection: ({ socket }) => socket.pause() })
      const front = startFront([backend.url])
      const { client, outcome } = await front.start(
        `POST / HTTP/1.1\r\nContent-Length: ${body.length}\r\n\r\n`,
      )
      client.send(body)
      let readBefore = -1
      const bytesRead = (): number => outcome.request?.socket.bytesRead ?? 0
      while (bytesRead() !== readBefore || readBefore === 0) {
        readBefore = bytesRead()
        await sleep(300)
      }
      // The rest is in the kernel's buffers, whose size is not ours.
      expect(bytesRead()).toBeLessThan(24 * mebibyte)
      backend.connections[0]?.socket.resume()
      await outcome.over
      expect(backend.requests[0]?.body.equals(body)).toBe(true)
    })

    it('fails a chunked body that passes the limit, not one that meets it, and the backend never sees it complete', async () => {
      const { backend, front } = await open()
      const send = (last: string) =>
        front.run(
          `POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n${chunked(last)}`,
          { bodyLimitBytes: 10 },
        )
      const outcome = await send('world!')
      expect(outcome.calls).toEqual(['fail'])
      expect(outcome.failure?.kind).toBe('body_too_large')
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
      expect(backend.requests).toEqual([])
      expect(outcome.request?.socket?.destroyed).toBe(false)
      expect((await send('world')).calls).toEqual(['head', 'data', 'end'])
    })

    it('ends the backend request when the client leaves in the middle of its body', async () => {
      const { backend, front } = await open()
      const { client, outcome } = await front.start(
        'POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nhello',
      )
      await until(() => String(backend.connections[0]?.raw()).includes('hello'), 'half the body')
      client.reset()
      await outcome.over
      expect(outcome.failure?.kind).toBe('client_gone')
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
      expect(backend.requests).toEqual([])
    })

    it('ends with the answer that comes before the body has been sent, and does not reuse the connection', async () => {
      const backend = await startRawBackend({
        onHead: ({ method }, connection) => {
          if (method === 'POST') void connection.play(answer(413, 'too much'))
        },
      })
      const front = startFront([backend.url])
      const outcome = await front.run('POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nhello')
      expect(outcome).toMatchObject({ status: 413, body: 'too much' })
      expect(outcome.calls).toEqual(['head', 'data', 'end'])
      expect((await front.get('/next')).body).toBe('ok')
      expect(backend.connections).toHaveLength(2)
      expect(outcome.request?.socket?.destroyed).toBe(false)
    })
  })
}
