/** Reads and checks the PEM files of TLS with clients, Redis or backends once, so that a wrong file ends the start and not a later reconnect. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext, type ConnectionOptions } from 'node:tls'
import type { AdminIdentity } from '../../admin/connections.ts'
import type { AdminConfig, Config, ServerTlsConfig, TlsFilesConfig } from '../../config/config.ts'
import type { TlsIdentity } from '../../core/http/tls-server.ts'

type AdminTls = NonNullable<AdminConfig['tls']>

/** Returns the text of the file, after a check that throws if it is of no use; throws an Error that names key, file and remedy. */
function read(key: string, file: string, remedy: string, check: (pem: string) => void): string {
  let [fault, what] = ['cannot be read', 'check its name and permissions']
  try {
    const pem = readFileSync(file, 'utf8')
    ;[fault, what] = ['cannot be used', remedy]
    check(pem)
    return pem
  } catch (cause) {
    const reason = cause instanceof Error && 'code' in cause ? String(cause.code) : 'not PEM'
    throw new Error(`${key}: ${file} ${fault} (${reason}); ${what}`, { cause })
  }
}

const certificates = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** Returns the setting that names a file, such as `upstream.tls.cert`. */
type NameOf = (file: 'ca' | 'cert' | 'key' | 'clientCa') => string

const under =
  (group: string): NameOf =>
  (file) =>
    `${group}.${file}`

/** group: prefix of the keys, such as `upstream.tls`. Throws an Error that names the key, the file and the remedy when a file cannot be used. */
export const readTlsFiles = (group: string, files: TlsFilesConfig): ConnectionOptions =>
  readNamedFiles(under(group), files)

/** Reads files that other settings name, as readTlsFiles does. */
export function readNamedFiles(nameOf: NameOf, files: TlsFilesConfig): ConnectionOptions {
  const { caFile, certFile, keyFile, serverName } = files
  // This is explicit, so that no environment variable can switch it off.
  const options: ConnectionOptions = { rejectUnauthorized: true }
  if (serverName !== undefined) options.servername = serverName
  if (caFile !== undefined) options.ca = readAuthorities(nameOf('ca'), caFile)
  if (certFile === undefined || keyFile === undefined) return options
  return { ...options, ...readPair(nameOf, certFile, keyFile) }
}

/** Reads the files of the connections to backends as readTlsFiles does; undefined: they have none. */
export const readBackendTls = ({ tls }: Config['upstream']): ConnectionOptions | undefined =>
  tls && readTlsFiles('upstream.tls', tls)

export const readStoreTls = ({ shared }: Config['store']): ConnectionOptions | undefined =>
  shared?.tls && readTlsFiles(`store.${shared.setting}.tls`, shared.tls)

/** Reads the files of the public listener as readTlsFiles does; undefined: it has no TLS. */
export const readServerTls = (tls: ServerTlsConfig | undefined): TlsIdentity | undefined =>
  tls && { ...readIdentity('server.tls', tls), minVersion: tls.minVersion }

export const readAdminTls = ({ tls }: AdminConfig): AdminIdentity | undefined =>
  tls && readIdentity('admin.tls', tls)

function readIdentity(group: string, { certFile, keyFile, clientCaFile }: AdminTls) {
  const nameOf = under(group)
  const clientCa = clientCaFile && readAuthorities(nameOf('clientCa'), clientCaFile)
  return { ...readPair(nameOf, certFile, keyFile), clientCa }
}

function readAuthorities(key: string, file: string): string {
  return read(key, file, 'give the PEM certificates of the authorities to trust', (pem) => {
    const found = (pem.match(certificates) ?? []).map((text) => new X509Certificate(text))
    if (found.length === 0) throw new Error('no certificate')
  })
}

function readPair(nameOf: NameOf, certFile: string, keyFile: string) {
  const certRemedy = 'give the PEM certificate that is shown, then those that signed it'
  const cert = read(nameOf('cert'), certFile, certRemedy, (pem) =>
    createSecureContext({ cert: pem }),
  )
  const keyRemedy = `give the PEM private key of ${nameOf('cert')}, not encrypted`
  const key = read(nameOf('key'), keyFile, keyRemedy, (pem) => {
    createPrivateKey(pem)
    createSecureContext({ cert, key: pem })
  })
  return { cert, key }
}
