/** Chooses the view by the address. */
import { onTokenNeeded } from './api.ts'
import { startKeys } from './keys.ts'
import { start } from './live.ts'
import { views } from './places.ts'
import { askForToken, Attention, Header, StaleBanner } from './shell.ts'
import { html, render, useLayoutEffect, useRef, useState } from './ui.ts'

function placeOf(hash: string) {
  const [path = '', query = ''] = hash.slice(1).split('?')
  return { path: path === '' ? '/' : path, query: new URLSearchParams(query) }
}

/** Keeps filters in the address; replacing it leaves no entry in the history for each letter. */
function change(name: string, value: string) {
  const { path, query } = placeOf(location.hash)
  if (value === '') query.delete(name)
  else query.set(name, value)
  const text = query.toString()
  history.replaceState(null, '', `#${path}${text === '' ? '' : `?${text}`}`)
}

/** A path that is not percent-encoded correctly names no view. */
function decoded(path: string) {
  try {
    return decodeURIComponent(path)
  } catch {
    return ''
  }
}

function viewOf(path: string) {
  const [, own, id = ''] = /^(\/[^/]*)(?:\/(.+))?$/.exec(decoded(path)) ?? []
  const view = views.find((one) => one.path === own)
  const View = id === '' ? view?.Whole : view?.One
  return { title: View === undefined ? 'Nothing here' : id || view?.name, id, View }
}

function App() {
  // A view is made anew at each turn, as one may lead to the same address without its filters.
  const [{ hash, turn }, go] = useState({ hash: location.hash, turn: 0 })
  const heading = useRef<HTMLElement>(null)
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
