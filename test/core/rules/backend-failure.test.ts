import { describe, expect, it } from 'vitest'
import { isRefusal, refusalKinds, refuse } from '../../../src/core/rules/refusals.ts'
import {
  couldNotConnect,
  mayRepeat,
  moreMayCome,
  ambiguousFields,
  unusableAnswer,
  backendFailureCodes,
  backendFailureKind,
  type FailedAttempt,
} from '../../../src/core/rules/backend-failure.ts'
import { words } from '../../support/words.ts'

describe('the kind of an upstream failure', () => {
  it.each([
    // before anything was sent, after, codes
    [
      'unreachable',
      'broken',
      `ECONNREFUSED ENOTFOUND EAI_AGAIN EHOSTUNREACH CERT_HAS_EXPIRED ECONNRESET EPIPE
      HPE_INVALID_CONSTANT TypeError`,
    ],
    ['unreachable', 'broken', ''],
    ['connect_timeout', 'broken', 'ETIMEDOUT ECONNECT_TIMEOUT'],
  ])('is %s when nothing was sent, %s after: %s', (before, after, codes) => {
    for (const code of words(codes)) {
      expect(backendFailureKind(code, false), code).toBe(before)
      expect(backendFailureKind(code, true), code).toBe(after)
    }
  })

  it.each([
    ['unreachable', 'bad_gateway', 502, true],
    ['broken', 'bad_gateway', 502, false],
    ['connect_timeout', 'gateway_timeout', 504, true],
    ['saturated', 'service_unavailable', 503, true],
    ['response_timeout', 'gateway_timeout', 504, false],
    ['body_too_large', 'body_too_large', 413, false],
  ] as const)('%s is answered %s (%i); handed back: %s', (kind, code, status, handedBack) => {
    expect(backendFailureCodes[kind]).toBe(code)
    expect(refusalKinds[backendFailureCodes[kind]].status).toBe(status)
    expect(isRefusal(refuse(backendFailureCodes[kind]))).toBe(true)
    expect(couldNotConnect({ phase: 'connecting', kind })).toBe(handedBack)
  })

  it('client_gone has nobody to be answered', () => {
    expect(backendFailureCodes.client_gone).toBeUndefined()
  })
})

describe('a failed request may be repeated', () => {
  const untouched = { cause: '', bodyTouched: false, answerBegun: false }
  const stale: FailedAttempt = {
    ...untouched,
    kind: 'broken',
    phase: 'sent',
    reusedConnection: true,
  }
  const fresh = { ...stale, reusedConnection: false }
  const unconnected: FailedAttempt = { ...fresh, kind: 'unreachable', phase: 'connecting' }
  const slow: FailedAttempt = { ...stale, kind: 'response_timeout' }
  it.each<[boolean, string, string, FailedAttempt]>([
    [true, 'GET HEAD OPTIONS PUT DELETE', 'on a reused connection that died', stale],
    [false, 'POST PATCH', 'on it', stale],
    [false, 'get', 'on it, which is no known method', stale],
    [true, 'GET', 'whose fresh connection died', fresh],
    [false, 'PUT', 'whose body was touched', { ...stale, bodyTouched: true }],
    [false, 'GET', 'that has part of an answer', { ...stale, answerBegun: true }],
    [true, 'GET', 'that timed out', slow],
    [false, 'GET', 'whose body was too large', { ...stale, kind: 'body_too_large' }],
    [false, 'GET', 'whose client left', { ...stale, kind: 'client_gone' }],
    [true, 'POST', 'that could not be connected', unconnected],
    [true, 'POST', 'not connected in time', { ...unconnected, kind: 'connect_timeout' }],
    [false, 'POST', 'unconnected, its body touched', { ...unconnected, bodyTouched: true }],
    [false, 'POST', 'unconnected, not to be written', { ...unconnected, kind: 'broken' }],
  ])('%s: a %s %s', (expected, methods, _, failed) => {
    for (const method of words(methods)) expect(mayRepeat(method, failed), method).toBe(expected)
  })

  it('only when it failed to connect says that of its backend', () => {
    expect(couldNotConnect(unconnected)).toBe(true)
    expect(couldNotConnect({ ...unconnected, kind: 'connect_timeout' })).toBe(true)
    expect(couldNotConnect({ ...unconnected, kind: 'client_gone' })).toBe(false)
    expect(couldNotConnect(stale)).toBe(false)
  })
})

describe('an answer', () => {
  const length = ['Content-Length', '0']
  it.each([200, 204, 226, 304, 404, 499, 500, 599])('with status %i can be passed on', (status) => {
    expect(unusableAnswer(status, length)).toBeUndefined()
  })

  it.each([0, 99, 100, 101, 199, 600, 999, 1000])('with status %i cannot', (status) => {
    expect(unusableAnswer(status, length)).toMatch(/./)
  })

  it.each([
    [['Transfer-Encoding', 'chunked'], undefined],
    [['transfer-encoding', 'Chunked'], undefined],
    [['TRANSFER-ENCODING', 'gzip'], 'an unknown transfer coding'],
    [['Transfer-Encoding', 'gzip, chunked'], 'an unknown transfer coding'],
    [['X', '1', 'Transfer-Encoding', 'chunked, chunked'], 'an unknown transfer coding'],
    [['X A', '1'], 'a space in a header field name'],
    [['X', 'a value with spaces'], undefined],
    [Array<string>(1998).fill('x'), undefined],
    [Array<string>(2000).fill('x'), '1000 header fields or more'],
  ])('with such fields is judged', (headers, cause) => {
    expect(unusableAnswer(200, headers) ?? ambiguousFields(headers)).toBe(cause)
  })
})

describe('an answer without a body', () => {
  it.each([
    ['HEAD', 200, [], true],
    ['GET', 204, [], false],
    ['GET', 204, ['Content-Length', '9'], true],
    ['GET', 304, ['transfer-encoding', 'chunked'], true],
    ['GET', 200, ['Content-Length', '9'], false],
  ])('to %s with %i and %j: more may come behind it: %s', (method, status, headers, may) => {
    expect(moreMayCome(method, status, headers)).toBe(may)
  })
})
