/** Creates the backends of a configuration. */
import type { ConnectionOptions } from 'node:tls'
import { createBackend, type Backend } from '../../core/backends/backend.ts'
import type { Config } from '../../config/config.ts'
import { readTlsFiles } from './tls-files.ts'

/** Throws an Error that names the key, the file and the remedy when a file for TLS cannot be used. */
export const readBackendTls = ({ tls }: Config['upstream']): ConnectionOptions | undefined =>
  tls && readTlsFiles('upstream.tls', tls)

/** earlier: a backend of the same origin passes on its state, and its outcomes are counted on. Throws as readBackendTls does. */
export function createBackends(
  upstream: Config['upstream'],
  tls = readBackendTls(upstream),
  earlier: readonly Backend[] = [],
): Backend[] {
  const known = new Map(earlier.map((backend) => [backend.name, backend]))
  return upstream.urls.map((url) =>
    createBackend(url, upstream, tls, known.get(new URL(url).origin)),
  )
}
