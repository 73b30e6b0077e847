/** Says in words why a TLS connection to a backend failed: the spelling of Node's codes changes with its OpenSSL. */

const untrusted = 'its certificate is of no authority that is trusted here (upstream.tls.ca)'

/** Alerts of the backend, which has then read nothing of a request; with TLS 1.3 they come after the gateway's side of the handshake. */
const refusals: readonly [RegExp, string][] = [
  [/alert.certificate.required/i, 'it asks for a certificate of ours (upstream.tls.cert)'],
  [
    /alert.handshake.failure/i,
    'it refuses the handshake; it may ask for a certificate of ours (upstream.tls.cert)',
  ],
  [
    /alert.(unknown.ca|(bad|unsupported).certificate|certificate.(unknown|expired|revoked))/i,
    'it does not accept our certificate (upstream.tls.cert)',
  ],
]

const faults: readonly [RegExp, string][] = [
  ...refusals,
  [/CERT_HAS_EXPIRED/, 'its certificate has expired'],
  [/CERT_NOT_YET_VALID/, 'its certificate is not valid yet'],
  [
    /DEPTH_ZERO_SELF_SIGNED_CERT/,
    'its certificate is self-signed and not trusted here (upstream.tls.ca)',
  ],
  [/SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET_ISSUER_CERT|VERIFY_LEAF_SIGNATURE)/, untrusted],
  [/ERR_TLS_CERT_ALTNAME_INVALID/, 'its certificate is for another name (upstream.tls.serverName)'],
  [/wrong.version.number|packet.length.too.long/i, 'it speaks no TLS (http:// in upstream.urls)'],
  [
    /EPROTO|ERR_SSL_|ERR_TLS_/,
    'TLS fails; compare upstream.urls (https:// or http://) and upstream.tls',
  ],
]

const find = (table: typeof faults, text: string) => table.find(([fault]) => fault.test(text))?.[1]

/** Puts the words for a TLS fault, if it is one, before the text, an error's code and message, or its shorter form. */
export function inWords(text: string, short = text): string {
  const what = find(faults, text)
  return what === undefined ? short : `${what}; ${short}`
}

/** Why no connection was made; the code alone where there is one. */
export const connectFault = ({ code, message }: NodeJS.ErrnoException): string =>
  inWords(`${code}: ${message}`, code ?? message)

export const isTlsRefusal = (text: string): boolean => find(refusals, text) !== undefined
