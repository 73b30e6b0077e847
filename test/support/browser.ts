/** Chromium without a window, and pages of an origin of their own. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { chromium, type Browser, type Page } from 'playwright-core'
import { BROWSER } from './browser-offer.ts'
import { ensurePackage } from './debian-package.ts'
import { listening } from './listening.ts'

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

const axe = join(import.meta.dirname, '../../node_modules/axe-core/axe.min.js')

/** What axe finds wrong with the page as it is shown. */
export async function axeFaults(page: Page): Promise<string[]> {
  // A page keeps it from view to view.
  if ((await page.evaluate('typeof axe')) === 'undefined')
    await page.evaluate(readFileSync(axe, 'utf8'))
  const script = `axe.run().then((found) => found.violations.map(
    ({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))`
  return (await page.evaluate(script)) as string[]
}

/** Serves the page under every path but the browser's own wish for an icon, until the file ends; its origin, such as http://127.0.0.1:40001. */
export async function startSite(html: string): Promise<string> {
  const server = createServer(({ url }, response) => {
    if (url === '/favicon.ico') return response.writeHead(204).end()
    return response.setHeader('Content-Type', 'text/html; charset=utf-8').end(html)
  })
  return `http://127.0.0.1:${await listening(server)}`
}
