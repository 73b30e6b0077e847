import { describe, expect, it } from 'vitest'
import { isRefusal } from '../../../src/core/rules/refusals.ts'
import { handshakeFault, readOffer } from '../../../src/core/rules/websocket.ts'
import { fields } from '../../support/words.ts'

const KEY = 'dGhlIHNhbXBsZSBub25jZQ=='
const ACCEPT = 's3pPLMBiTxaQ9kYGzzhZRbK+xOo='
const version = 'Sec-WebSocket-Version: 13'
const key = `Sec-WebSocket-Key: ${KEY}`

describe('the offer of a client', () => {
  it('is its key, and the names of protocols and extensions', () => {
    const given = `${version} | X: 1 | sec-websocket-key: ${KEY}
      | Sec-WebSocket-Protocol: chat, superchat
      | Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits, foo
      | Sec-WebSocket-Extensions: bar ; a="b"`
    expect(readOffer(fields(given))).toEqual({
      key: KEY,
      protocols: ['chat', 'superchat'],
      extensions: ['permessage-deflate', 'foo', 'bar'],
    })
  })

  it.each<[string, string[]]>([
    ['no version', [key]],
    ['a version that only begins like it', ['Sec-WebSocket-Version: 13.1', key]],
    ['a list of versions', ['Sec-WebSocket-Version: 13, 8', key]],
    ['the version twice', [version, version, key]],
  ])('with %s is refused with the version that would do', (_, lines) => {
    const refusal = readOffer(fields(lines.join(' | ')))
    const told = isRefusal(refusal) && refusal.answer.headers.slice(-2)
    expect(told).toEqual(fields(version))
    expect(refusal).toMatchObject({ code: 'invalid_request' })
  })

  it.each<[string, string[]]>([
    ['no key', [version]],
    ['a key of 15 bytes', [version, 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j']],
    ['a key of 17 bytes', [version, 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZSE=']],
    ['a key that is not base64', [version, 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZ!==']],
    ['two keys', [version, key, key]],
    ['a look-alike of the key beside it', [version, key, `Sec_WebSocket_Key: ${KEY}`]],
  ])('with %s is refused', (_, lines) => {
    const refusal = readOffer(fields(lines.join(' | ')))
    expect(refusal).toMatchObject({ code: 'invalid_request', fields: undefined })
  })
})

describe('the 101 of a backend', () => {
  const offer = { key: KEY, protocols: ['chat', 'superchat'], extensions: ['permessage-deflate'] }
  const upgrade = 'Upgrade: WebSocket'
  const connection = 'Connection: keep-alive, upgrade'
  const accept = `Sec-WebSocket-Accept: ${ACCEPT}`
  const sound = [upgrade, connection, accept]

  it.each([
    [sound],
    [[...sound, 'Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover']],
  ])('answers: %s', (lines) => {
    expect(handshakeFault(offer, ACCEPT, fields(lines.join(' | ')))).toBeUndefined()
  })

  it.each([
    ['no WebSocket', [connection, accept]],
    ['no WebSocket', ['Upgrade: websocket, h2c', connection, accept]],
    ['no WebSocket', [upgrade, upgrade, connection, accept]],
    ['Connection', [upgrade, accept]],
    ['Accept', [upgrade, connection]],
    ['Accept', [upgrade, connection, `Sec-WebSocket-Accept: ${KEY}`]],
    ['Accept', [upgrade, connection, `Sec-WebSocket-Accept: ${ACCEPT.toLowerCase()}`]],
    ['Accept', [...sound, accept]],
    ['protocol', [...sound, 'Sec-WebSocket-Protocol: ']],
    ['protocol', [...sound, 'Sec-WebSocket-Protocol: chat, superchat']],
    ['protocol', [...sound, 'Sec-WebSocket-Protocol: chat', 'Sec-WebSocket-Protocol: chat']],
    ['extension', [...sound, 'Sec-WebSocket-Extensions: permessage-deflate, other']],
  ])('is no answer for its %s: %s', (fault, lines) => {
    expect(handshakeFault(offer, ACCEPT, fields(lines.join(' | ')))).toContain(fault)
  })

  it('may choose nothing where nothing was offered', () => {
    const nothing = { key: KEY, protocols: [], extensions: [] }
    expect(handshakeFault(nothing, ACCEPT, fields(sound.join(' | ')))).toBeUndefined()
    for (const line of ['Sec-WebSocket-Protocol: chat', 'Sec-WebSocket-Extensions: foo'])
      expect(handshakeFault(nothing, ACCEPT, fields([...sound, line].join(' | ')))).toContain(
        'not offered',
      )
  })
})
