import type { TestProject } from 'vitest/node'
import { ensureRedisServer } from './redis-server.ts'
import { ensureOpenssl } from './redis-tls.ts'
import { bundleSources } from './sources.ts'

/** Runs once before all tests: makes sure that a real redis-server and openssl are there, or fails with the command that installs them; and that processes start fast. */
export default async function setup(project: TestProject): Promise<() => void> {
  ensureRedisServer()
  ensureOpenssl()
  const bundle = await bundleSources()
  project.onTestsRerun(bundle.again)
  return bundle.remove
}
