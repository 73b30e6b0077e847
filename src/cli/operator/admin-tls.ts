/** The certificate that a command, or a gateway that asks others, shows to an admin listener, and the authorities that it trusts: PEM files that environment variables name. */
import type { Environment } from '../../config/environment.ts'
import { readNamedFiles } from '../../server/gateway/tls-files.ts'
import { Fault } from '../terminal/fault.ts'

const CERT = 'TOLLGATE_ADMIN_CERT'
const KEY = 'TOLLGATE_ADMIN_KEY'
const CA = 'TOLLGATE_ADMIN_CA'

/** Throws a Fault that names the variable, the file and the remedy. An empty variable counts as not set. */
export function tlsOf(env: Environment) {
  const [certFile, keyFile, caFile] = [CERT, KEY, CA].map((name) => env[name] || undefined)
  if ((certFile === undefined) !== (keyFile === undefined)) {
    const [is, isNot] = certFile === undefined ? [KEY, CERT] : [CERT, KEY]
    const remedy = `set ${isNot}, too, or neither`
    throw new Fault('usage', `${is} is set without ${isNot}`, { remedy })
  }
  const files = { caFile, certFile, keyFile, serverName: undefined }
  try {
    return readNamedFiles((file) => `TOLLGATE_ADMIN_${file.toUpperCase()}`, files)
  } catch (cause) {
    const { message } = cause as Error
    const end = message.lastIndexOf('; ')
    throw new Fault('usage', message.slice(0, end), { remedy: message.slice(end + 2), cause })
  }
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
