/** The operators' page: a fixed list of files, which hold no data and are served to everyone. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { methodNotAllowed, type Answer } from './answers.ts'

/** Files in src/admin/page, served below /page/. */
export const pageFiles = [
  'style.css',
  'icon.svg',
  'main.js',
  'shell.js',
  'api.js',
  'live.js',
  'explained.js',
  'dom.js',
  'ui.js',
  'table.js',
  'dialog.js',
  'acts.js',
  'reload.js',
  'chart.js',
  'plot.js',
  'views/parts.js',
  'views/overview.js',
  'views/clients.js',
  'views/client.js',
  'views/history.js',
  'views/bans.js',
  'views/routes.js',
  'views/shadow.js',
  'views/system.js',
  'views/config.js',
  'views/explain.js',
  'vendor/uplot.css',
  'vendor/uplot.js',
] as const

/** Files served at their path below src, so that page and server format numbers and times alike. */
export const sharedFiles = ['insight/format.js'] as const

const contentTypes: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
}

/** The page loads nothing from elsewhere, and no other page can frame it. */
const fields = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  // Browsers revalidate each time, so that page and API are of one version.
  'Cache-Control': 'no-cache',
}

/** Path below src of each asset, by the path of its URL. */
const files = new Map([
  ['/', 'admin/page/index.html'],
  ...pageFiles.map((file) => [`/page/${file}`, `admin/page/${file}`] as const),
  ...sharedFiles.map((file) => [`/${file}`, file] as const),
])
const assets = new Map<string, Answer>()

/** undefined: the path is none of the page's. */
export function pageAsset({ method, headers }: IncomingMessage, path: string): Answer | undefined {
  const file = files.get(path)
  if (file === undefined) return undefined
  if (method !== 'GET' && method !== 'HEAD') return methodNotAllowed('GET, HEAD')
  const asset = assets.get(path) ?? readAsset(path, file)
  const isKnown = headers['if-none-match'] === asset.fields?.['ETag']
  return isKnown ? { ...asset, status: 304 } : asset
}

/** Files are read on first use, as the page of most gateways is never opened. */
function readAsset(path: string, file: string): Answer {
  const text = readFileSync(join(import.meta.dirname, '..', file), 'utf8')
  const body = file.endsWith('.js') && !file.includes('/vendor/') ? withoutRemarks(text) : text
  const digest = createHash('sha256').update(body).digest('base64url').slice(0, 22)
  const contentType = contentTypes[file.slice(file.lastIndexOf('.') + 1)] ?? 'text/plain'
  const asset = { status: 200, contentType, body, fields: { ...fields, ETag: `"${digest}"` } }
  assets.set(path, asset)
  return asset
}

/** Removes comments and indentation, a quarter of the text; line numbers stay. */
export const withoutRemarks = (script: string): string =>
  script.replaceAll(/^\s*\/\/.*$|\/\*\*[^]*?\*\//gm, '').replaceAll(/^\s+/gm, '')
