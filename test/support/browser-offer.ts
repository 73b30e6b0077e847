/** One Chromium for all files of a run: it begins when the first of them asks for its address. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { BrowserServer } from 'playwright-core'

/** Where it is asked for. */
export const BROWSER = 'TOLLGATE_TEST_BROWSER'

/** Resolves with what ends it. */
export async function offerBrowser(): Promise<() => Promise<void>> {
  let launched: Promise<BrowserServer> | undefined
  const door = createServer((_, response) => {
    launched ??= import('./browser.ts').then(({ launchServer }) => launchServer())
    launched.then(
      (browser) => response.end(browser.wsEndpoint()),
      (error: unknown) => response.writeHead(500).end(String(error)),
    )
  })
  await once(door.listen(0, '127.0.0.1'), 'listening')
  process.env[BROWSER] = `http://127.0.0.1:${(door.address() as AddressInfo).port}`
  return async () => {
    door.close()
    await (await launched?.catch(() => undefined))?.close()
  }
}
