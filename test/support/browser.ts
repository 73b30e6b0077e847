/** Chromium without a window, and pages of an origin of their own. */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { chromium, type Browser } from 'playwright-core'
import { ensurePackage } from './debian-package.ts'

/** Where Debian puts it. */
const CHROMIUM = '/usr/bin/chromium'

export function openBrowser(): Promise<Browser> {
  ensurePackage('chromium', { probe: [CHROMIUM, '--version'] })
  return chromium.launch({
    executablePath: CHROMIUM,
    // What it is shown is our own; for root it has no sandbox.
    chromiumSandbox: process.getuid?.() !== 0,
  })
}

export interface Site {
  /** Such as http://127.0.0.1:40001 */
  readonly origin: string
  close(): void
}

/** Serves the page under every path but the browser's own wish for an icon. */
export async function startSite(html: string): Promise<Site> {
  const server = createServer(({ url }, response) => {
    if (url === '/favicon.ico') return response.writeHead(204).end()
    return response.setHeader('Content-Type', 'text/html; charset=utf-8').end(html)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => server.close().closeAllConnections(),
  }
}
