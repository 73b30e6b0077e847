/** Chromium without a window, and pages of an origin of their own. */
import { createServer } from 'node:http'
import { chromium, type Browser } from 'playwright-core'
import { BROWSER, listening } from './browser-offer.ts'
import { ensurePackage } from './debian-package.ts'

/** Where Debian puts it. */
const CHROMIUM = '/usr/bin/chromium'

function options() {
  ensurePackage('chromium', { probe: [CHROMIUM, '--version'] })
  // What it is shown is our own; for root it has no sandbox.
  return { executablePath: CHROMIUM, chromiumSandbox: process.getuid?.() !== 0 }
}

export const launchServer = () => chromium.launchServer(options())

/** In a run of tests its close() ends what was opened through it, and leaves the Chromium to the others. */
export async function openBrowser(): Promise<Browser> {
  const offer = process.env[BROWSER]
  if (offer === undefined) return chromium.launch(options())
  const answer = await fetch(offer)
  if (!answer.ok) throw new Error(await answer.text())
  return chromium.connect(await answer.text())
}

export type Site = Awaited<ReturnType<typeof startSite>>

/** Serves the page under every path but the browser's own wish for an icon. */
export async function startSite(html: string) {
  const server = createServer(({ url }, response) => {
    if (url === '/favicon.ico') return response.writeHead(204).end()
    return response.setHeader('Content-Type', 'text/html; charset=utf-8').end(html)
  })
  return {
    /** Such as http://127.0.0.1:40001 */
    origin: await listening(server),
    close: () => server.close().closeAllConnections(),
  }
}
