/** The backends as they are configured. */
import { createBackend, type Backend } from '../backends/backend.ts'
import type { Config } from '../config/config.ts'
import { readTlsFiles } from './tls-files.ts'

/** Throws an Error that tells the key, the file and the remedy when a file for TLS cannot be used. */
export function createBackends(upstream: Config['upstream']): Backend[] {
  const { urls, tls } = upstream
  const options = tls && readTlsFiles('upstream.tls', tls)
  return urls.map((url) => createBackend(url, upstream, options))
}
