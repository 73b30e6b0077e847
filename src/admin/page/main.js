/** Chooses the view by the address. */
import { onTokenNeeded } from './api.js'
import { places, startKeys } from './keys.js'
import { start } from './live.js'
import { askForToken, Attention, Header, StaleBanner } from './shell.js'
import { html, render, useLayoutEffect, useRef, useState } from './ui.js'
import { Bans } from './views/bans.js'
import { Client } from './views/client.js'
import { Clients } from './views/clients.js'
import { Config } from './views/config.js'
import { Explain } from './views/explain.js'
import { Overview } from './views/overview.js'
import { Routes } from './views/routes.js'
import { System } from './views/system.js'

/** @import { Child } from './ui.js' */

/** What a view is given; `change` keeps a filter in the address. @typedef {{ id: string, query: URLSearchParams, change: (name: string, value: string) => void }} Place */

/** @type {Record<typeof places[number][1], (place: Place) => Child>} */
const views = { Overview, Clients, Bans, Routes, System, Config, Explain }

/** @param {string} hash */
function placeOf(hash) {
  const [path = '', query = ''] = hash.slice(1).split('?')
  return { path: path === '' ? '/' : path, query: new URLSearchParams(query) }
}

/** Keeps filters in the address; replacing it leaves no entry in the history for each letter. @param {string} name @param {string} value */
function change(name, value) {
  const { path, query } = placeOf(location.hash)
  if (value === '') query.delete(name)
  else query.set(name, value)
  const text = query.toString()
  history.replaceState(null, '', `#${path}${text === '' ? '' : `?${text}`}`)
}

/** A path that is not percent-encoded correctly names no view. @param {string} path */
function decoded(path) {
  try {
    return decodeURIComponent(path)
  } catch {
    return ''
  }
}

/** @param {string} path @returns {{ title: string, id?: string, View?: (place: Place) => Child }} */
function viewOf(path) {
  const [, id] = /^\/clients\/(.+)$/.exec(decoded(path)) ?? []
  if (id !== undefined) return { title: id, id, View: Client }
  const [, name] = places.find(([own]) => own === path) ?? []
  return name === undefined ? { title: 'Nothing here' } : { title: name, View: views[name] }
}

function App() {
  // A view is made anew at each turn, as one may lead to the same address without its filters.
  const [{ hash, turn }, go] = useState({ hash: location.hash, turn: 0 })
  /** @type {{ current: HTMLElement | null }} */
  const heading = useRef(null)
  const { path, query } = placeOf(hash)
  const { title, id, View } = viewOf(path)
  const shown = useRef(path)
  useLayoutEffect(() => {
    const follow = () => {
      // The skip link has set this hash.
      if (location.hash === '#view') heading.current?.focus()
      else go((before) => ({ hash: location.hash, turn: before.turn + 1 }))
    }
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  useLayoutEffect(() => {
    document.title = `${title} · Tollgate`
    if (shown.current === path) return
    shown.current = path
    heading.current?.focus()
    scrollTo(0, 0)
  }, [path])
  return html`
    <${Header} path=${path} />
    <${StaleBanner} />
    <${Attention} isWhole=${path === '/'} />
    <main id="view" tabindex="-1">
      <h1 tabindex="-1" ref=${heading}>${title}</h1>
      ${View ? html`<${View} key=${turn} id=${id} query=${query} change=${change} />` : 'No such view.'}
    </main>`
}

startKeys()
onTokenNeeded(askForToken)
start()
const page = document.querySelector('#page')
if (page !== null) render(html`<${App} />`, page)
