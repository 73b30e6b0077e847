import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import type { ForwardJob } from '../../../src/core/forwarding/engine.ts'
import { requestHead } from '../../../src/core/http/request-head.ts'
import { jobWith } from '../../contract/forwarding.ts'

const head = (job: Partial<ForwardJob>) => {
  const made = requestHead(jobWith({ target: '/pets', ...job }), 'backend:80')
  return made && { ...made, text: made.bytes.toString('latin1') }
}

const BODY = Readable.from([])

describe('a request head', () => {
  it('has the fields as given, between the request line and what is said of the connection', () => {
    const headers = ['Host', 'animals.example', 'x-A', '1', 'X-a', 'caf\xe9']
    expect(head({ target: '/a?b=|', headers })?.text).toBe(
      'GET /a?b=| HTTP/1.1\r\nHost: animals.example\r\nx-A: 1\r\nX-a: caf\xe9\r\nConnection: keep-alive\r\n\r\n',
    )
  })

  it('names the backend where the job names no host', () => {
    expect(head({ headers: [] })?.text).toContain('\r\nHost: backend:80\r\n')
  })

  it('says nothing of the connection but its own', () => {
    const { text = '' } = head({ headers: ['Host', 'a', 'connection', 'close, x-a'] }) ?? {}
    expect(text.match(/connection/gi)).toHaveLength(1)
  })

  it('asks for the end of the connection behind HEAD, whose answer may have a body after all', () => {
    expect(head({ method: 'HEAD' })?.text).toMatch(/\r\nConnection: close\r\n\r\n$/)
  })

  it.each([
    ['GET', false, [], 'none', undefined],
    ['POST', false, [], 'Content-Length: 0', undefined],
    ['PUT', true, [], 'Transfer-Encoding: chunked', undefined],
    ['DELETE', true, [], 'Transfer-Encoding: chunked', undefined],
    ['POST', true, ['content-length', '12'], 'content-length: 12', 12],
    ['POST', false, ['Content-Length', '0'], 'Content-Length: 0', 0],
  ])('of %s (body: %s) with %j is framed: %s', (...row) => {
    const [method, hasBody, headers, framing, bodyBytes] = row
    const made = head({
      method,
      body: hasBody ? BODY : undefined,
      headers: ['Host', 'a', ...headers],
    })
    const framings = made?.text.match(/^(?:content-length|transfer-encoding): .*$/gim) ?? ['none']
    expect(framings).toEqual([framing])
    expect(made?.bodyBytes).toBe(bodyBytes)
  })

  it.each<[string, Partial<ForwardJob>]>([
    ['a line end in the target', { target: '/a HTTP/1.1\r\nX: 1' }],
    ['a space in the target', { target: '/a b' }],
    ['an empty target', { target: '' }],
    [
      'a character beyond latin1 in the target, whose low byte is a line end',
      { target: '/\u010a' },
    ],
    ['a method that is no token', { method: 'GET /' }],
    ['a line end in a value', { headers: ['A', '1\r\nB: 2'] }],
    ['a bare CR in a value', { headers: ['A', '1\rB: 2'] }],
    ['a NUL in a value', { headers: ['A', '\0'] }],
    ['a character beyond latin1 in a value', { headers: ['A', '\u010d\u010aB: 2'] }],
    ['a name that is no token', { headers: ['A: 1\r\nB', '2'] }],
    ['an empty name', { headers: ['', '2'] }],
    ['a transfer coding of its own', { headers: ['transfer-encoding', 'chunked'], body: BODY }],
    ['two lengths', { headers: ['Content-Length', '1', 'content-length', '1'], body: BODY }],
    ['a length that is no number', { headers: ['Content-Length', '1, 1'], body: BODY }],
    ['a length and no body', { headers: ['Content-Length', '1'] }],
  ])('is not made with %s', (_, job) => {
    expect(head(job)).toBeUndefined()
  })
})
