import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { TlsFilesConfig } from '../../src/config/config.ts'
import { readTlsFiles } from '../../src/gateway/tls-files.ts'
import { makeCertificates, type Certificate, type Certificates } from '../support/redis-tls.ts'

let certificates: Certificates
beforeAll(() => {
  certificates = makeCertificates()
})
afterAll(() => certificates.remove())

const files = (ca: string | undefined, own: Certificate | undefined): TlsFilesConfig => ({
  caFile: ca,
  certFile: own?.cert,
  keyFile: own?.key,
  serverName: undefined,
})

describe('files for TLS that are of no use', () => {
  const garbage = (): string => {
    const file = join(certificates.ca, '..', 'garbage.pem')
    writeFileSync(file, '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n')
    return file
  }

  it('are refused with key, file and remedy', () => {
    const { ca, client, server: other } = certificates
    const fault = (tls: TlsFilesConfig): string => {
      try {
        readTlsFiles('upstream.tls', tls)
      } catch (error) {
        return (error as Error).message
      }
      return 'none'
    }
    expect(fault(files(ca, client))).toBe('none')
    expect(fault(files('/nowhere/ca.pem', undefined))).toBe(
      'upstream.tls.ca: /nowhere/ca.pem cannot be read (ENOENT); check its name and permissions',
    )
    const bad = garbage()
    expect(fault(files(bad, undefined))).toMatch(
      /^upstream\.tls\.ca: \S+garbage\.pem cannot be used \(\w+\); give the PEM certificates of the authorities to trust$/,
    )
    expect(fault(files(client.key, undefined))).toMatch(
      /^upstream\.tls\.ca: \S+client\.key cannot be used \(not PEM\);/,
    )
    expect(fault(files(ca, { cert: bad, key: client.key }))).toMatch(
      /^upstream\.tls\.cert: \S+garbage\.pem cannot be used \(\w+\); give the PEM certificate /,
    )
    expect(fault(files(ca, { cert: client.cert, key: other.key }))).toMatch(
      /^upstream\.tls\.key: \S+server\.key cannot be used \(ERR_OSSL_X509_KEY_VALUES_MISMATCH\); give the PEM private key of tls\.cert, not encrypted$/,
    )
    expect(fault(files(ca, { cert: client.cert, key: client.cert }))).toMatch(
      /^upstream\.tls\.key: \S+client\.pem cannot be used /,
    )
  })
})
