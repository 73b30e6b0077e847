/** The operators' page: files that hold no data and are served to everyone. */
import { hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import type { IncomingMessage } from 'node:http'
import { createRequire, stripTypeScriptTypes } from 'node:module'
import { basename, extname, join, relative } from 'node:path'
import { gzipSync } from 'node:zlib'
import { methodNotAllowed, type Answer } from './answers.ts'

/** Files of the page by what they are. */
const contentTypes: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.ts': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

const src = join(import.meta.dirname, '..')
const PAGE = 'admin/page/index.html'
/** A build has made TypeScript JavaScript. */
const asScript = (file: string): string => file.replace(/\.ts$/, '.js')
const onDisk = import.meta.filename.endsWith('.ts') ? String : asScript
/** Page and command line write numbers, times and changes alike. */
const changes = ['line-diff.ts', 'radius-in-words.ts'].map((file) => `config/changes/${file}`)
const shared = ['config/time.ts', ...changes, 'insight/format.js']
/** Below src. Listed once, at the start: no path of a request reaches the file system. */
const files = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' })
  .map((file) => `admin/${file}`)
  .filter((file) => /\/(?:page\/|view|words\.)[^/]+$/.test(file) && extname(file) in contentTypes)
  .concat(shared.map(onDisk))
const isScript = (file: string): boolean => /\.[jt]s$/.test(file)

const require = createRequire(import.meta.url)
/** Paths of installed packages' files, served beside the page's own. They are looked for when they are asked for. */
export const libraries = {
  'preact.js': () => require.resolve('preact'),
  'hooks.js': () => require.resolve('preact/hooks'),
  // Packages that are required get another file than those that are imported.
  'htm.js': () => require.resolve('htm').replace(/\.js$/, '.mjs'),
  'uplot.js': () => require.resolve('uplot/dist/uPlot.iife.min.js'),
  'uplot.css': () => require.resolve('uplot/dist/uPlot.min.css'),
} as const

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

/** Path of each asset, by the path of its URL: as below src, so that scripts find one another. */
export const pageFiles: ReadonlyMap<string, () => string> = new Map([
  ...files.map((file) => {
    const path = file === PAGE ? '/' : `/${asScript(file)}`
    return [path, () => join(src, file)] as const
  }),
  ...Object.entries(libraries).map(([name, file]) => [`/admin/page/${name}`, file] as const),
])
const assets = new Map<string, Answer>()

/** undefined: the path is none of the page's. */
export function pageAsset({ method, headers }: IncomingMessage, path: string): Answer | undefined {
  const file = pageFiles.get(path)
  if (file === undefined) return undefined
  if (method !== 'GET' && method !== 'HEAD') return methodNotAllowed('GET, HEAD')
  const isZipped = /\bgzip\b/.test(String(headers['accept-encoding']))
  const asset = assets.get(`${isZipped} ${path}`) ?? readAsset(path, file(), isZipped)
  const isKnown = headers['if-none-match'] === asset.fields?.['ETag']
  return isKnown ? { ...asset, status: 304 } : asset
}

/** Files are read on first use, as the page of most gateways is never opened. */
function readAsset(path: string, file: string, isZipped: boolean): Answer {
  const text = textOf(path, file)
  const body = isZipped ? gzipSync(text) : text
  const digest = hash('sha256', body, 'base64url').slice(0, 22)
  const asset = {
    status: 200,
    contentType: contentTypes[extname(file)] ?? 'text/javascript; charset=utf-8',
    body,
    fields: { ...fields, ETag: `"${digest}"`, ...(isZipped && { 'Content-Encoding': 'gzip' }) },
  }
  assets.set(`${isZipped} ${path}`, asset)
  return asset
}

function textOf(path: string, file: string): string {
  if (path === '/') return readFileSync(file, 'utf8').replace('<!-- scripts -->', scriptTags)
  const isOwn = isScript(path) && file.startsWith(src)
  const text = isOwn ? scriptText(relative(src, file)) : readFileSync(file, 'utf8')
  // Browsers know no packages: a script that imports one gets its address instead.
  return text.replaceAll(/(?<=\bfrom ?['"])[\w/]+(?=['"])/g, (name) => `./${basename(name)}.js`)
}

/** Views register themselves, before the page begins. All that they import is fetched at the same time. */
const scriptTags = files
  .filter(isScript)
  .map(asScript)
  .map((file) =>
    file.endsWith('/view.js')
      ? `<script type="module" src="${file}"></script>`
      : `<link rel="modulepreload" href="${file}" />`,
  )
  .join('\n')

/** A script below src as browsers get it: without types, comments and indentation, a third of the text; line numbers stay. */
export function scriptText(path: string): string {
  const file = onDisk(path)
  const text = readFileSync(join(src, file), 'utf8')
  // Types become as many spaces.
  return (file.endsWith('.ts') ? stripTypeScriptTypes(text) : text)
    .replaceAll(/ {2,}/g, (run, at: number) => (text.startsWith(run, at) ? run : ' '))
    .replaceAll(/^\s*\/\/.*$|\/\*\*[^]*?\*\//gm, '')
    .replaceAll(/^\s+|[ ]+$/gm, '')
    .replaceAll(/(?<=\bfrom '\.[^']*\.)ts(?=')/g, 'js')
}
