/** Frame around every view: whether the data is live, what needs attention, and where else to go. */
import { call } from './api.ts'
import { confirmed, field } from './dialog.ts'
import { clock, count, duration, plural } from '../../insight/format.js'
import { showHelp, toggleTheme } from './keys.ts'
import { live, now, pause, reconnect } from './live.ts'
import { views } from './places.ts'
import {
  button,
  html,
  searchBox,
  shapes,
  state,
  useEffect,
  useLive,
  useRef,
  useState,
  type Kind,
} from './ui.ts'
import type { Attention as Line } from '../../insight/api/live.ts'
import type { Routes } from '../routes/operations.ts'
import type { Backends } from '../system/operations.ts'
import type { ClientsPage } from '../clients/operations.ts'

const SEARCHED = 'Search clients, keys, backends, routes and requests'

function connection(): [Kind, string] {
  if (live.state === 'stale') return ['bad', 'no live data']
  if (live.paused) return ['warn', 'paused']
  return live.state === 'live' ? ['ok', 'live'] : ['none', 'connecting']
}

function gatewayText() {
  if (live.overview === null) return ''
  const { gateway, workers, revision } = live.overview
  const missing = workers.listening < workers.wanted ? `${workers.listening} of ` : ''
  return `${gateway} · ${missing}${plural(workers.wanted, 'worker')} · rev ${revision}`
}

/** Whether any has the text in its name or path. */
const holds = (named: readonly { name: string; path?: string }[], text: string) =>
  named.some(({ name, path = '' }) => `${name} ${path}`.includes(text))

/** Where the text is found: among clients and keys, backends, or routes; else it may be a request id. */
async function placeOf(text: string) {
  const q = encodeURIComponent(text)
  const [clients, { backends }, { routes }] = await Promise.all([
    call<ClientsPage>(`/api/clients?q=${q}`),
    call<Backends>('/api/backends'),
    call<Routes>('/api/routes'),
  ])
  const mayBeId = /^[\w.-]{16,}$/.test(text)
  if (clients.total > 0) return `/clients?q=${q}`
  if (holds(backends, text)) return '/system'
  if (holds(routes, text)) return '/routes'
  return mayBeId ? `/explain?id=${q}` : `/clients?q=${q}`
}

export function Header({ path }: { path: string }) {
  useLive({ whilePaused: true })
  const [isOpen, open] = useState(false)
  useEffect(() => open(false), [path])
  const banned = live.overview?.counts.bannedKeys ?? 0
  const isHere = (own: string) =>
    own === '/' ? path === '/' : path === own || path.startsWith(`${own}/`)
  const search = (event: { currentTarget: HTMLFormElement } & Event) => {
    event.preventDefault()
    const asked = event.currentTarget.querySelector('input')?.value.trim() ?? ''
    const go = (place: string) => void (location.hash = place)
    placeOf(asked).then(go, () => go(`/clients?q=${encodeURIComponent(asked)}`))
  }
  const [kind, word] = connection()
  return html`<header class=${isOpen ? 'open' : ''}>
    <div class="bar">
      <strong class="brand">Tollgate</strong>
      <span id="gateway" class="muted">${gatewayText()}</span>
      <span id="state" class="is ${kind}" role="status">${`${shapes[kind]} ${word}`}</span>
      ${button(live.paused ? 'Resume' : 'Pause', () => pause(!live.paused), { 'aria-pressed': live.paused })}
      ${button('Theme', toggleTheme, { id: 'theme' })}
      ${button('?', showHelp, { id: 'help', 'aria-label': 'Help and keys' })}
      ${button('Menu', () => open(!isOpen), { id: 'menu', 'aria-expanded': isOpen, 'aria-controls': 'nav' })}
    </div>
    <nav id="nav" aria-label="Views">
      ${views.map(
        ({ path: own, name }) => html`<a href="#${own}" aria-current=${isHere(own) ? 'page' : null}>
          ${name}
          ${own === '/bans' && banned > 0 && html` <span class="is warn">${count(banned)}</span>`}
        </a>`,
      )}
      <form id="search" role="search" onSubmit=${search}>
        ${searchBox({ placeholder: 'Search ( / )', 'aria-label': SEARCHED })}
      </form>
    </nav>
  </header>`
}

/** Says since when there is no live data, and why. */
export function StaleBanner() {
  useLive({ whilePaused: true })
  const isStale = live.state === 'stale'
  useEffect(() => void document.body.classList.toggle('stale', isStale), [isStale])
  if (!isStale) return null
  const { latest, cause, nextTryMs } = live
  const at = latest === null ? 'the start' : clock(Date.parse(latest.at), now())
  const waitMs = nextTryMs - Date.now()
  const next = waitMs > 0 ? `Next try in ${duration(Math.ceil(waitMs / 1_000) * 1_000)}` : 'Trying'
  const why = cause === null ? '' : ` (${cause.replace(/\.$/, '')})`
  return html`<section class="line bad stale-banner" aria-label="Connection">
    <span role="alert">${`■ No live data since ${at}${why}.`}</span>
    <span>${next}</span>
    ${button('Now', reconnect)}
  </section>`
}

/** Address of the view with details. */
function linkOf({ kind, subject }: Line) {
  if (kind === 'client' && subject !== null) return `#/clients/${encodeURIComponent(subject)}`
  if (kind === 'key' && subject !== null) return `#/clients?q=${encodeURIComponent(subject)}`
  return kind === 'reload' || kind === 'config' ? '#/config' : '#/system'
}

const SPEAK_EVERY_MS = 30_000
const NONE = 'Nothing needs attention.'
let spokenMs = -Infinity

/** Announces other things to screen readers, at most once in SPEAK_EVERY_MS. */
function Spoken({ things, text }: { things: string; text: string }) {
  const [spoken, speak] = useState('')
  useEffect(() => {
    const waitMs = Math.max(0, spokenMs + SPEAK_EVERY_MS - Date.now())
    const timer = setTimeout(() => {
      spokenMs = Date.now()
      speak(text)
    }, waitMs)
    return () => clearTimeout(timer)
  }, [things])
  return html`<p class="unseen" aria-live="polite">${spoken}</p>`
}

/** Identity of what needs attention; the texts may change every second. */
const thingsOf = (lines: readonly Line[]) =>
  JSON.stringify(lines.map(({ kind, severity, subject }) => [kind, severity, subject]))

/** All lines on the overview, and a count of them that opens elsewhere. */
export function Attention({ isWhole }: { isWhole: boolean }) {
  useLive()
  const box = useRef<HTMLElement>(null)
  const shown = useRef([] as readonly Line[])
  if (live.overview === null) return html`<section id="attention" aria-label="Needs attention" />`
  const { attention } = live.overview
  const isHeld = box.current?.contains(document.activeElement) || box.current?.matches(':hover')
  const things = thingsOf(attention)
  // Nothing moves under a pointer or the focus, though its text may change.
  if (!isHeld || things === thingsOf(shown.current)) shown.current = attention
  const lines = shown.current.map(
    (line) => html`<p class="line ${line.severity}">
      <span>${`${shapes[line.severity]} ${line.text}`}</span>
      <a href=${linkOf(line)} aria-label="Open ${line.subject ?? line.kind}">Open</a>
    </p>`,
  )
  return html`<section id="attention" aria-label="Needs attention" ref=${box}>
    ${lines.length === 0 && html`<p class="line ok">${`${shapes.ok} ${NONE}`}</p>`}
    ${lines.length > 0 && (isWhole ? lines : folded(shown.current, lines))}
    <${Spoken} things=${things} text=${attention.map(({ text }) => text).join('. ') || NONE} />
  </section>`
}

function folded(all: readonly Line[], lines: unknown) {
  const count = (severity: string) => all.filter((one) => one.severity === severity).length
  const [bad, warn] = [count('bad'), count('warn')]
  return html`<details class="line fold ${bad > 0 ? 'bad' : 'warn'}">
    <summary>
      ${bad > 0 && state('bad', plural(bad, 'fault'))}${' '}
      ${warn > 0 && state('warn', plural(warn, 'warning'))}
      ${` ${all[0]?.text}`}
    </summary>
    ${lines}
  </details>`
}

/** Asks for a token after a 401; undefined: the operator has cancelled. */
export async function askForToken(refused: boolean) {
  let given: string | undefined
  await confirmed({
    title: 'This gateway asks for a token',
    content: () => html`
      ${refused && html`<p class="line bad" role="alert">■ The token was refused.</p>`}
      <p>
        The one of admin.tokenSha256. It is kept in the memory of this page, and is gone when the page
        is.
      </p>
      ${field('Token', html`<input type="password" name="token" autocomplete="off" autofocus />`)}`,
    confirm: 'Use this token',
    busy: 'Asking…',
    harmless: true,
    isReady: ({ token = '' }) => token !== '',
    act: ({ token }) => Promise.resolve(() => void (given = token)),
  })
  return given
}
