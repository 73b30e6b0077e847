import type { TestProject } from 'vitest/node'
import { offerBrowser } from './browser-offer.ts'
import { ensureRedisServer, startSharedRedis } from './redis-server.ts'
import { ensureOpenssl } from './redis-tls.ts'
import { bundleSources } from './sources.ts'

/** Runs once before all tests: makes sure that a real redis-server and openssl are there, or fails with the command that installs them, that processes start fast, and that files share a Redis and a browser. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  ensureRedisServer()
  ensureOpenssl()
  const [stopRedis, bundle, closeBrowser] = await Promise.all([
    startSharedRedis(),
    bundleSources(),
    offerBrowser(),
  ])
  project.onTestsRerun(bundle.again)
  return async () => {
    bundle.remove()
    await Promise.all([stopRedis(), closeBrowser()])
  }
}
