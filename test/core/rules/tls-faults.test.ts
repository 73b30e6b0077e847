import { describe, expect, it } from 'vitest'
import { connectFault, inWords, isTlsRefusal } from '../../../src/core/rules/tls-faults.ts'

describe('a fault of a TLS connection', () => {
  it.each([
    ['CERT_HAS_EXPIRED: certificate has expired', 'its certificate has expired', false],
    ['CERT_NOT_YET_VALID: x', 'its certificate is not valid yet', false],
    ['SELF_SIGNED_CERT_IN_CHAIN: x', 'its certificate is of no authority', false],
    ['UNABLE_TO_GET_ISSUER_CERT_LOCALLY: x', 'its certificate is of no authority', false],
    ['UNABLE_TO_VERIFY_LEAF_SIGNATURE: x', 'its certificate is of no authority', false],
    ['ERR_TLS_CERT_ALTNAME_INVALID: x', 'its certificate is for another name', false],
    ['ERR_SSL_WRONG_VERSION_NUMBER: x', 'it speaks no TLS', false],
    ['EPROTO: SSL routines:tls_get_more_records:packet length too long', 'it speaks no TLS', false],
    ['ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED: x', 'it asks for a certificate', true],
    ['ERR_SSL_SSL/TLS_ALERT_HANDSHAKE_FAILURE: x', 'it refuses the handshake', true],
    ['EPROTO: SSL routines:ssl3_read_bytes:tlsv1 alert unknown ca', 'it does not accept', true],
    ['ERR_SSL_SSLV3_ALERT_BAD_CERTIFICATE: x', 'it does not accept our', true],
    ['ERR_SSL_SSLV3_ALERT_CERTIFICATE_EXPIRED: x', 'it does not accept our', true],
  ])('is told in words: %s', (text, words, refused) => {
    expect(inWords(text)).toContain(words)
    expect(isTlsRefusal(text)).toBe(refused)
  })

  it.each([
    [
      'EPROTO',
      '40:error:0A00010B:SSL routines::wrong version number',
      /^it speaks no TLS .*; EPROTO$/,
    ],
    ['ERR_SSL_NO_CIPHER_MATCH', '', /^TLS fails; compare upstream.urls .*; ERR_SSL_/],
    ['ECONNREFUSED', 'connect ECONNREFUSED 127.0.0.1:1', /^ECONNREFUSED$/],
  ])('that keeps a connection from coming about says what to look at: %s', (code, text, said) => {
    expect(connectFault(Object.assign(new Error(text), { code }))).toMatch(said)
  })

  it.each(['ECONNRESET: socket hang up', 'ECONNREFUSED: connect ECONNREFUSED 127.0.0.1:1'])(
    'is not every fault: %s',
    (text) => {
      expect(inWords(text)).toBe(text)
      expect(isTlsRefusal(text)).toBe(false)
    },
  )
})
