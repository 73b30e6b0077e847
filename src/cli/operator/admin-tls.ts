/** The certificate that a command shows to an admin listener, and the authorities that it trusts: PEM files that environment variables name. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import type { Environment } from '../../config/environment.ts'
import { Fault } from '../terminal/fault.ts'

export const CERT = 'TOLLGATE_ADMIN_CERT'
export const KEY = 'TOLLGATE_ADMIN_KEY'
export const CA = 'TOLLGATE_ADMIN_CA'

/** Throws a Fault that names the variable, the file and the remedy. */
export function tlsOf(env: Environment) {
  const [cert, key, ca] = [read(env, CERT), read(env, KEY), read(env, CA)]
  if ((cert === undefined) !== (key === undefined)) {
    const [is, isNot] = cert === undefined ? [KEY, CERT] : [CERT, KEY]
    throw refused(`${is} is set without ${isNot}`, `set ${isNot}, too, or neither`)
  }
  const use = (name: string, remedy: string, task: () => unknown): void => {
    try {
      task()
    } catch (error) {
      throw refused(`${name}: ${env[name]} cannot be used`, remedy, error)
    }
  }
  if (ca !== undefined)
    use(CA, 'give the PEM certificates of authorities', () => new X509Certificate(ca))
  if (cert !== undefined)
    use(CERT, 'give a PEM certificate, then those that signed it', () =>
      createSecureContext({ cert }),
    )
  if (key !== undefined) {
    use(KEY, 'give a PEM private key, not encrypted', () => createPrivateKey(key))
    use(KEY, `give the private key of ${CERT}`, () => createSecureContext({ cert, key }))
  }
  // This is explicit, so that no environment variable can switch it off.
  return { cert, key, ca, rejectUnauthorized: true }
}

/** An empty variable counts as not set. */
function read(env: Environment, name: string): string | undefined {
  const file = env[name] || undefined
  try {
    return file && readFileSync(file, 'utf8')
  } catch (error) {
    throw refused(
      `${name}: ${file} cannot be read`,
      'name a PEM file that this user may read',
      error,
    )
  }
}

const refused = (message: string, remedy: string, cause?: unknown): Fault => {
  const { code, message: reason } = (cause ?? {}) as NodeJS.ErrnoException
  return new Fault('usage', message, { reason: code ?? reason, remedy, cause })
}

/** Returns why the connection failed, and what helps; undefined: TLS is not the cause. */
export function tlsFault({ code = '', message }: NodeJS.ErrnoException) {
  if (/^(?:UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO)/.test(code))
    return {
      reason: `its certificate is not trusted (${code})`,
      remedy: `name a PEM file of the authority that signed it in the environment variable ${CA}`,
    }
  // OpenSSL reports the alert of the other side.
  const [, alert] = /SSL alert number (\d+)/.exec(message) ?? []
  if (alert !== undefined)
    return {
      reason: `it ends the handshake (TLS alert ${alert})`,
      remedy: `where it wants a client certificate, name PEM files in the environment variables ${CERT} and ${KEY}`,
    }
  if (/:(?:wrong version number|packet length too long):/.test(message))
    return { reason: 'it speaks no TLS', remedy: 'write http://, or configure admin.tls' }
  return undefined
}
