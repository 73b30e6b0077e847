/** The PEM files of a TLS connection to Redis, read and checked once, so that a wrong file ends the start and not a later reconnect. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext, type ConnectionOptions } from 'node:tls'
import type { RedisTlsConfig } from '../config/config.ts'

const reasonOf = (error: unknown): string =>
  error instanceof Error && 'code' in error ? String(error.code) : 'not PEM'

/** Does the work with the text of the file; throws an Error that names key and file, and what to do. */
function use<Result>(
  key: string,
  { file, remedy }: { file: string; remedy: string },
  work: (pem: string) => Result,
): Result {
  const fail = (fault: string, what: string, cause: unknown): Error =>
    new Error(`store.redis.tls.${key}: ${file} ${fault} (${reasonOf(cause)}); ${what}`, { cause })
  let pem: string
  try {
    pem = readFileSync(file, 'utf8')
  } catch (cause) {
    throw fail('cannot be read', 'check its name and permissions', cause)
  }
  try {
    return work(pem)
  } catch (cause) {
    throw fail('cannot be used', remedy, cause)
  }
}

const certificates = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Throws an Error that tells the key, the file and the remedy when a file cannot be used. */
export function readRedisTls(files: RedisTlsConfig): ConnectionOptions {
  const { caFile, certFile, keyFile, serverName } = files
  // Said outright, so that no environment variable can switch it off.
  const options: ConnectionOptions = { rejectUnauthorized: true }
  if (serverName !== undefined) options.servername = serverName
  if (caFile !== undefined) {
    const remedy = 'give the PEM certificates of the authorities to trust'
    options.ca = use('ca', { file: caFile, remedy }, (pem) => {
      const found = (pem.match(certificates) ?? []).map((text) => new X509Certificate(text))
      if (found.length === 0) throw new Error('no certificate')
      return pem
    })
  }
  if (certFile === undefined || keyFile === undefined) return options
  const certRemedy = 'give the PEM certificate that this gateway shows, then those that signed it'
  const cert = use('cert', { file: certFile, remedy: certRemedy }, (pem) => {
    createSecureContext({ cert: pem })
    return pem
  })
  const keyRemedy = 'give the PEM private key of tls.cert, not encrypted'
  const key = use('key', { file: keyFile, remedy: keyRemedy }, (pem) => {
    createPrivateKey(pem)
    createSecureContext({ cert, key: pem })
    return pem
  })
  return { ...options, cert, key }
}
