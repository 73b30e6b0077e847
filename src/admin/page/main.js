/** Chooses the view, and reloads its data. */
import { onTokenNeeded } from './api.js'
import { listen, live, start } from './live.js'
import { askForToken, drawShell, startShell } from './shell.js'
import { bans } from './views/bans.js'
import { client } from './views/client.js'
import { clients } from './views/clients.js'
import { config } from './views/config.js'
import { explain } from './views/explain.js'
import { overview } from './views/overview.js'
import { routes } from './views/routes.js'
import { system } from './views/system.js'
import { h } from './ui.js'

/**
 * @typedef {object} View
 * @property {string} title
 * @property {(Node | string)[]} content
 * @property {() => void} [tick] a second has come, or the connection has changed
 * @property {() => unknown} [load] asks for what it shows; again and again
 * @property {() => void} [close]
 */
/** @typedef {{ id: string, query: URLSearchParams, change: (name: string, value: string) => void }} Place */

const POLL_MS = 3_000

/** @type {readonly (readonly [RegExp, (place: Place) => View])[]} */
const views = [
  [/^\/$/, overview],
  [/^\/clients$/, clients],
  [/^\/clients\/(.+)$/, client],
  [/^\/bans$/, bans],
  [/^\/routes$/, routes],
  [/^\/system$/, system],
  [/^\/config$/, config],
  [/^\/explain$/, explain],
]

/** @type {View | undefined} */
let view
/** Path of the view, without its filters. */
let shownPath = ''

/** Keeps filters in the address; replacing it leaves no entry in the history for each letter. @param {string} name @param {string} value */
function change(name, value) {
  const { path, query } = placeOf(location.hash)
  if (value === '') query.delete(name)
  else query.set(name, value)
  const text = query.toString()
  history.replaceState(null, '', `#${path}${text === '' ? '' : `?${text}`}`)
}

/** @param {string} hash */
function placeOf(hash) {
  const [path = '', query = ''] = hash.slice(1).split('?')
  return { path: path === '' ? '/' : path, query: new URLSearchParams(query) }
}

/** A path that is not percent-encoded correctly names no view. @param {string} path */
function decoded(path) {
  try {
    return decodeURIComponent(path)
  } catch {
    return ''
  }
}

function show() {
  // The skip link has set this hash.
  if (location.hash === '#view') return document.querySelector('h1')?.focus()
  const { path, query } = placeOf(location.hash)
  const first = view === undefined
  view?.close?.()
  const [match, make] = views
    .map(([shape, make]) => /** @type {const} */ ([shape.exec(decoded(path)), make]))
    .find(([match]) => match !== null) ?? [
    null,
    () => ({ title: 'Nothing here', content: ['No such view.'] }),
  ]
  view = make({ id: match?.[1] ?? '', query, change })
  const title = h('h1', { tabindex: -1 }, view.title)
  document.title = `${view.title} · Tollgate`
  document.querySelector('main')?.replaceChildren(title, ...view.content)
  for (const link of document.querySelectorAll('nav a')) {
    const own = link.getAttribute('href')?.slice(1)
    const current = own === '/' ? path === '/' : path === own || path.startsWith(`${own}/`)
    if (current) link.setAttribute('aria-current', 'page')
    else link.removeAttribute('aria-current')
  }
  if (!first && shownPath !== path) {
    title.focus()
    scrollTo(0, 0)
  }
  shownPath = path
  view.tick?.()
  load()
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer
/** Loads the view's data; what is shown stays until then. A hidden page loads nothing. */
function load() {
  clearTimeout(timer)
  if (document.visibilityState === 'hidden') return
  timer = setTimeout(() => {
    if (!live.paused && live.state !== 'stale') load()
    else poll()
  }, POLL_MS)
  void view?.load?.()
}
/** Waits until the gateway can be reached and the page is not paused. */
function poll() {
  clearTimeout(timer)
  timer = setTimeout(() => (live.paused || live.state === 'stale' ? poll() : load()), POLL_MS)
}

let isDue = false
/** Loads soon after an event; many events cause one load. */
function loadSoon() {
  if (isDue) return
  isDue = true
  setTimeout(() => {
    isDue = false
    if (!live.paused) load()
  }, 500)
}

startShell()
onTokenNeeded(askForToken)
listen((change) => {
  drawShell(change)
  if (change === 'tick' || change === 'overview' || change === 'state') view?.tick?.()
  if (change === 'visible' && !live.paused) load()
  if (change === 'event') loadSoon()
})
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'hidden') clearTimeout(timer)
})
addEventListener('hashchange', show)
start()
show()
