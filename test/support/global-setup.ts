import { ensureRedisServer } from './redis-server.ts'
import { ensureOpenssl } from './redis-tls.ts'
import { warmCompileCache } from './sources.ts'

/** Runs once before all tests: makes sure that a real redis-server and openssl are there, or fails with the command that installs them; and that processes start fast. */
export default function setup(): void {
  ensureRedisServer()
  ensureOpenssl()
  warmCompileCache()
}
