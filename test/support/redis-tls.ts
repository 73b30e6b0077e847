/** Certificates made at test time with openssl, and a redis-server that asks for them. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensurePackage } from './debian-package.ts'
import { flags, withFreePorts } from './redis-shared.ts'
import { freePort, startRedisServer, type RedisServer } from './redis-server.ts'

export const ensureOpenssl = (): void =>
  ensurePackage('openssl', {
    probe: ['openssl', 'version'],
    elsewhere: 'brew install openssl (macOS)',
  })

export interface Certificate {
  readonly cert: string
  readonly key: string
}

/** Paths of PEM files. */
export interface Certificates {
  readonly ca: string
  /** For redis.internal and 127.0.0.1. */
  readonly server: Certificate
  /** For other.internal only. */
  readonly misnamed: Certificate
  readonly client: Certificate
  /** For 127.0.0.1; of the authority, but over. */
  readonly expired: Certificate
  /** Of another authority. */
  readonly foreign: Certificate & { readonly ca: string }
}

/** Made once for all files of a process, and kept until it ends: others may use them still. */
export function makeCertificates(): Certificates {
  return (made ??= make())
}

let made: Certificates | undefined

function make(): Certificates {
  ensureOpenssl()
  const directory = mkdtempSync(join(tmpdir(), 'tollgate-tls-'))
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }))
  const path = (file: string): string => join(directory, file)
  const openssl = (...args: string[]): void =>
    void execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const authority = (name: string): string => {
    const made = ['-keyout', path(`${name}.key`), '-out', path(`${name}.pem`)]
    openssl('req', '-x509', ...newKey, '-days', '2', '-subj', `/CN=${name}`, ...made)
    return path(`${name}.pem`)
  }
  const issue = (name: string, by: string, names: string, days = '2'): Certificate => {
    const files = { cert: path(`${name}.pem`), key: path(`${name}.key`) }
    writeFileSync(path(`${name}.ext`), `subjectAltName=${names}\n`)
    const request = path(`${name}.csr`)
    openssl('req', ...newKey, '-subj', `/CN=${name}`, '-keyout', files.key, '-out', request)
    const signer = ['-CA', path(`${by}.pem`), '-CAkey', path(`${by}.key`), '-CAcreateserial']
    const result = ['-in', request, '-out', files.cert, '-extfile', path(`${name}.ext`)]
    openssl('x509', '-req', '-days', days, ...signer, ...result)
    return files
  }
  const ca = authority('authority')
  const foreignCa = authority('stranger')
  return {
    ca,
    server: issue('server', 'authority', 'DNS:redis.internal,IP:127.0.0.1'),
    misnamed: issue('misnamed', 'authority', 'DNS:other.internal'),
    client: issue('client', 'authority', 'DNS:gateway.internal'),
    expired: issue('expired', 'authority', 'IP:127.0.0.1', '-1'),
    foreign: { ...issue('foreign', 'stranger', 'IP:127.0.0.1'), ca: foreignCa },
  }
}

export type TlsRedisServer = RedisServer & { readonly tlsPort: number }

/** It asks every client for a certificate of the authority; redis-cli uses its plain port. */
export function startTlsRedisServer(
  { ca }: Certificates,
  certificate: Certificate,
  ...extra: string[]
): Promise<TlsRedisServer> {
  return withFreePorts(() => start(ca, certificate, extra))
}

async function start(
  ca: string,
  { cert, key }: Certificate,
  extra: readonly string[],
): Promise<TlsRedisServer> {
  const tlsPort = await freePort()
  const options = flags({
    'tls-port': tlsPort,
    'tls-auth-clients': 'yes',
    'tls-ca-cert-file': ca,
    'tls-cert-file': cert,
    'tls-key-file': key,
  })
  const server = await startRedisServer(...options, ...extra)
  return Object.defineProperties({ tlsPort } as TlsRedisServer, {
    ...Object.getOwnPropertyDescriptors(server),
  })
}
