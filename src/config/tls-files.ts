/** PEM files for a TLS connection that the gateway opens: the same keys to Redis and to backends. */
import { group } from './groups.ts'
import { line } from './scalars.ts'

const toTlsFiles = ({ ca, cert, key, serverName }: Partial<Record<string, string>>) => ({
  caFile: ca,
  certFile: cert,
  keyFile: key,
  serverName,
})

/** Used when no file is configured. */
export const noTlsFiles = toTlsFiles({})

export const tlsFiles = group({
  ca: line.optional().describe('PEM file of the authorities to trust, instead of the usual.'),
  cert: line.optional().describe('PEM file of the certificate that the gateway shows.'),
  key: line.optional().describe('PEM file of the private key of that certificate.'),
  serverName: line.optional().describe('Name in the certificates. Left out: the host.'),
}).transform(toTlsFiles)
