/** What reaches the backend: the same request, unambiguously framed, once. */
import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, until } from '../support/raw-backend.ts'
import type { Stage } from './forwarder.ts'

const mebibyte = 1024 * 1024
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
const chunked = (body: string): string => `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`

export function describeRequests({ backend: startBackend, front: startFront }: Stage): void {
  describe('the request', () => {
    it.each([
      '/v1/a%20b?x=%7C&y=a/../b',
      '/v1/pets?',
      '/?',
      '/v1//pets//',
      '//v1/pets',
      '/v1/../pets/./x',
      '/v1/%2e%2e/pets',
      '/v1/pets?a=1?b=2&&c',
      "/v1/~:@!$&'()*+,;=",
      '/v1/pets?x={|}[]^"<>`',
    ])('carries the target %s byte for byte', async (target) => {
      const backend = await startBackend()
      const front = await startFront([backend])
      await front.get(target)
      expect(backend.requests[0]?.target).toBe(target)
      expect(backend.problems()).toEqual([])
    })

    it('keeps header fields in order, in their spelling, with duplicates and latin1 values', async () => {
      const backend = await startBackend()
      const front = await startFront([backend])
      const fields = [
        'X-b: 2',
        'x-A: 1',
        'X-B: 3',
        'Cookie: a=1',
        'cookie: b=2',
        'X-Latin: caf\xe9',
      ]
      await front.run(`GET / HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`)
      const { headers = [] } = backend.requests[0] ?? {}
      const received = headers.flatMap((name, at) =>
        at % 2 === 0 && !/^(host|connection|x-test-id)$/i.test(name)
          ? [`${name}: ${headers[at + 1]}`]
          : [],
      )
      expect(received).toEqual(fields)
      expect(backend.requests[0]?.header('host')).toBe('animals.example')
    })

    it.each(['GET', 'HEAD', 'DELETE', 'OPTIONS'])(
      'sends %s without a body unframed',
      async (method) => {
        const backend = await startBackend()
        const front = await startFront([backend])
        await front.run(`${method} / HTTP/1.1\r\n\r\n`)
        expect(backend.requests).toMatchObject([{ method, framing: 'none' }])
        expect(backend.problems()).toEqual([])
      },
    )

    it.each(['POST', 'PUT', 'PATCH'])('says that %s without a body has none', async (method) => {
      const backend = await startBackend()
      const front = await startFront([backend])
      await front.run(`${method} / HTTP/1.1\r\nContent-Length: 0\r\n\r\n`)
      expect(backend.requests[0]?.all('content-length')).toEqual(['0'])
      expect(backend.problems()).toEqual([])
    })

    it.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])(
      'carries a %s body of known length with its Content-Length',
      async (method) => {
        const backend = await startBackend()
        const front = await startFront([backend])
        const outcome = await front.run(`${method} / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello`)
        expect(outcome.body).toBe('ok')
        expect(backend.requests).toMatchObject([{ method, framing: 'length' }])
        expect(String(backend.requests[0]?.body)).toBe('hello')
        expect(backend.problems()).toEqual([])
      },
    )

    it.each(['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])(
      'carries a chunked %s body whole, and no second request hidden in it',
      async (method) => {
        const backend = await startBackend()
        const front = await startFront([backend])
        const body = 'GET /admin HTTP/1.1\r\nHost: evil\r\n\r\n'
        const head = `${method} /pets HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n`
        await front.run(`${head}${chunked(body)}`)
        await front.get('/next')
        expect(backend.requests.map(({ target }) => target)).toEqual(['/pets', '/next'])
        expect(String(backend.requests[0]?.body)).toBe(body)
        expect(backend.requests[0]?.framing).not.toBe('none')
        expect(backend.problems()).toEqual([])
      },
    )

    it('passes a chunked body on while it is still being sent', async () => {
      const seen: string[] = []
      const backend = await startBackend({ onHead: ({ target }) => seen.push(target) })
      const front = await startFront([backend])
      const { client, outcome } = await front.start(
        'POST /slow HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n',
      )
      await until(() => String(backend.connections[0]?.raw()).includes('abc'), 'the first chunk')
      expect(seen).toEqual(['/slow'])
      client.send('3\r\ndef\r\n0\r\n\r\n')
      await until(() => outcome.settled)
      expect(String(backend.requests[0]?.body)).toBe('abcdef')
    })

    it('stops reading from the client while the backend does not read, and loses nothing', async () => {
      const body = randomBytes(48 * mebibyte)
      const backend = await startBackend({ onConnection: ({ socket }) => socket.pause() })
      const front = await startFront([backend])
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
      await until(() => outcome.settled, 'the answer', 25_000)
      expect(sha256(backend.requests[0]?.body ?? Buffer.alloc(0))).toBe(sha256(body))
    })

    it('fails a chunked body that passes the limit, which the backend never sees complete', async () => {
      const backend = await startBackend()
      const front = await startFront([backend])
      const outcome = await front.run(
        `POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n${chunked('world!')}`,
        { bodyLimitBytes: 10 },
      )
      expect(outcome.calls).toEqual(['fail'])
      expect(outcome.failure?.kind).toBe('body_too_large')
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
      expect(backend.requests).toEqual([])
      expect(outcome.request?.socket?.destroyed).toBe(false)
    })

    it('takes a chunked body that just meets the limit', async () => {
      const backend = await startBackend()
      const front = await startFront([backend])
      const outcome = await front.run(
        `POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n${chunked('0123456789')}`,
        { bodyLimitBytes: 10 },
      )
      expect(outcome.calls).toEqual(['head', 'data', 'end'])
    })

    it('ends the backend request when the client leaves in the middle of its body', async () => {
      const backend = await startBackend()
      const front = await startFront([backend])
      const { client, outcome } = await front.start(
        'POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nhello',
      )
      await until(() => String(backend.connections[0]?.raw()).includes('hello'), 'half the body')
      client.reset()
      await until(() => outcome.settled)
      expect(outcome.failure?.kind).toBe('client_gone')
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
      expect(backend.requests).toEqual([])
    })

    it('ends with the answer that comes before the body has been sent, and does not reuse the connection', async () => {
      const backend = await startBackend({
        onHead: ({ method }, connection) => {
          if (method === 'POST') void connection.play(answer(413, 'too much'))
        },
      })
      const front = await startFront([backend])
      const outcome = await front.run('POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nhello')
      expect(outcome).toMatchObject({ status: 413, body: 'too much' })
      expect(outcome.calls).toEqual(['head', 'data', 'end'])
      expect((await front.get('/next')).body).toBe('ok')
      expect(backend.connections).toHaveLength(2)
      expect(outcome.request?.socket?.destroyed).toBe(false)
    })
  })
}
