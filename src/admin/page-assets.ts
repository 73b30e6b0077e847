/** The operators' page: files that hold no data and are served to everyone. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { createRequire } from 'node:module'
import { basename, extname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { Answer } from './answers.ts'
import { methodNotAllowed } from './faults.ts'

/** Files in src/admin/page by what they are; all but the HTML are served below /page/. */
const contentTypes: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  mjs: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
}
const typeOf = (file: string): string | undefined => contentTypes[extname(file).slice(1)]

/** Listed once, at the start: no path of a request reaches the file system. */
export const pageFiles = readdirSync(join(import.meta.dirname, 'page'), {
  recursive: true,
  encoding: 'utf8',
}).filter((file) => typeOf(file) !== undefined && file !== 'index.html')

const require = createRequire(import.meta.url)
/** Paths of installed packages' files, served below /page/. They are looked for when they are asked for. */
export const libraries = {
  'preact.js': () => require.resolve('preact'),
  'hooks.js': () => require.resolve('preact/hooks'),
  // Packages that are required get another file than those that are imported.
  'htm.js': () => require.resolve('htm').replace(/\.js$/, '.mjs'),
  'uplot.js': () => require.resolve('uplot/dist/uPlot.iife.min.js'),
  'uplot.css': () => require.resolve('uplot/dist/uPlot.min.css'),
} as const

/** Files served at their path below src, so that page and server format numbers and times alike. */
export const sharedFiles = ['insight/format.js'] as const

/** The page loads nothing from elsewhere, and no other page can frame it. */
const fields = {
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  // Browsers revalidate each time, so that page and API are of one version.
  'Cache-Control': 'no-cache',
  Vary: 'Accept-Encoding',
}

const ownPath = (file: string) => (): string => join(import.meta.dirname, '..', file)
/** Path of each asset, by the path of its URL. */
const files = new Map([
  ['/', ownPath('admin/page/index.html')],
  ...pageFiles.map((file) => [`/page/${file}`, ownPath(`admin/page/${file}`)] as const),
  ...sharedFiles.map((file) => [`/${file}`, ownPath(file)] as const),
  ...Object.entries(libraries).map(([name, file]) => [`/page/${name}`, file] as const),
])
const assets = new Map<string, Answer>()

/** undefined: the path is none of the page's. */
export function pageAsset({ method, headers }: IncomingMessage, path: string): Answer | undefined {
  const file = files.get(path)
  if (file === undefined) return undefined
  if (method !== 'GET' && method !== 'HEAD') return methodNotAllowed('GET, HEAD')
  const isZipped = /\bgzip\b/.test(String(headers['accept-encoding']))
  const asset = assets.get(`${isZipped} ${path}`) ?? readAsset(path, file(), isZipped)
  const isKnown = headers['if-none-match'] === asset.fields?.['ETag']
  return isKnown ? { ...asset, status: 304 } : asset
}

/** Files are read on first use, as the page of most gateways is never opened. */
function readAsset(path: string, file: string, isZipped: boolean): Answer {
  const text = readFileSync(file, 'utf8')
  const isOwnScript = extname(path) === '.js' && !(path.slice('/page/'.length) in libraries)
  const script = withAddresses(isOwnScript ? withoutRemarks(text) : text)
  const body = isZipped ? gzipSync(script) : script
  const digest = createHash('sha256').update(body).digest('base64url').slice(0, 22)
  const asset = {
    status: 200,
    contentType: typeOf(file) ?? 'text/plain',
    body,
    fields: { ...fields, ETag: `"${digest}"`, ...(isZipped && { 'Content-Encoding': 'gzip' }) },
  }
  assets.set(`${isZipped} ${path}`, asset)
  return asset
}

/** Browsers know no packages: a script in /page/ that imports one gets its address instead. */
const withAddresses = (script: string): string =>
  script
    .replaceAll(/(?<=\bfrom ?['"])[\w/]+(?=['"])/g, (name) => `./${basename(name)}.js`)
    // The page is served one folder higher than it lies below src.
    .replaceAll(/(?<=\bfrom ')\.\.\/(?=(?:\.\.\/)+insight\/)/g, '')

/** Removes comments and indentation, a quarter of the text; line numbers stay. */
export const withoutRemarks = (script: string): string =>
  script.replaceAll(/^\s*\/\/.*$|\/\*\*[^]*?\*\//gm, '').replaceAll(/^\s+/gm, '')
