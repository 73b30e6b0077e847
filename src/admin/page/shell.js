/** Frame around every view: whether the data is live, what needs attention, and the keys. */
import { confirmed } from './dialog.js'
import { redrawCharts } from './chart.js'
import { clock, count, duration } from '../../insight/format.js'
import { live, now, pause, reconnect } from './live.js'
import { h, write } from './ui.js'

/** @import { Attention } from '../../insight/api/live.ts' */

/** @param {string} id @returns {HTMLElement} */
const part = (id) => document.getElementById(id) ?? document.body

/** Reads a setting of this browser, if it keeps any. @param {string} name */
const setting = (name) => {
  try {
    return localStorage.getItem(`tollgate.${name}`)
  } catch {
    return null
  }
}
/** @param {string} name @param {string} value */
const setSetting = (name, value) => {
  try {
    localStorage.setItem(`tollgate.${name}`, value)
  } catch {
    // The setting then lasts as long as the page.
  }
}

/** Address of the view with details. @param {Attention} attention */
function linkOf({ kind, subject }) {
  if (kind === 'client' && subject !== null) return `#/clients/${encodeURIComponent(subject)}`
  if (kind === 'key' && subject !== null) return `#/clients?q=${encodeURIComponent(subject)}`
  return kind === 'reload' ? '#/config' : '#/system'
}

const SPEAK_EVERY_MS = 30_000
let spokenMs = -Infinity
/** @type {ReturnType<typeof setTimeout> | undefined} */
let speaking

/** Announces changes to screen readers, at most once in SPEAK_EVERY_MS. @param {string} text */
function speak(text) {
  clearTimeout(speaking)
  const waitMs = Math.max(0, spokenMs + SPEAK_EVERY_MS - Date.now())
  speaking = setTimeout(() => {
    spokenMs = Date.now()
    write(part('spoken'), text)
  }, waitMs)
}

/** Identifies the things that need attention; their texts may change every second. @type {string | undefined} */
let shown

function drawAttention() {
  if (live.overview === null || live.paused) return
  const { attention } = live.overview
  const box = part('attention')
  const texts = attention.map(({ severity, text }) => `${severity === 'bad' ? '■' : '▲'} ${text}`)
  const things = JSON.stringify(
    attention.map(({ kind, severity, subject }) => [kind, severity, subject]),
  )
  if (things === shown)
    return texts.forEach((text, at) => write(box.children[at]?.firstChild ?? null, text))
  if (box.contains(document.activeElement) || box.matches(':hover')) return undefined
  shown = things
  const lines = attention.map((one, at) => {
    const link = { href: linkOf(one), 'aria-label': `Open ${one.subject ?? one.kind}` }
    return h('p', { class: one.severity }, h('span', {}, texts[at]), h('a', link, 'Open'))
  })
  const none = 'Nothing needs attention.'
  box.replaceChildren(...(lines.length > 0 ? lines : [h('p', { class: 'ok' }, `● ${none}`)]))
  return speak(attention.map(({ text }) => text).join('. ') || none)
}

function drawState() {
  const { state, paused, latest, cause, nextTryMs } = live
  const at = latest === null ? 'the start' : clock(Date.parse(latest.at), now())
  const isStale = state === 'stale'
  const kind = isStale ? 'bad' : paused ? 'warn' : state === 'live' ? 'ok' : 'none'
  const word = { bad: '■ no live data', warn: `▲ paused`, ok: '● live', none: '○ connecting' }[kind]
  write(part('state'), word)
  part('state').className = `is ${kind}`
  write(part('pause'), paused ? 'Resume' : 'Pause')
  part('pause').setAttribute('aria-pressed', String(paused))
  document.body.classList.toggle('stale', isStale)
  part('stale').hidden = !isStale
  const waitMs = nextTryMs - Date.now()
  const next = waitMs > 0 ? `Next try in ${duration(Math.ceil(waitMs / 1_000) * 1_000)}` : 'Trying'
  const why = cause === null ? '' : ` (${cause.replace(/\.$/, '')})`
  if (!isStale) return
  write(part('stale-text'), `■ No live data since ${at}${why}.`)
  write(part('stale-next'), ` ${next} `)
}

function drawOverview() {
  if (live.overview === null) return
  const { gateway, workers, revision, counts } = live.overview
  const missing = workers.listening < workers.wanted ? `${workers.listening} of ` : ''
  const many = workers.wanted === 1 ? 'worker' : 'workers'
  write(part('gateway'), `${gateway} · ${missing}${workers.wanted} ${many} · rev ${revision}`)
  part('banned').hidden = !counts.bannedKeys
  write(part('banned'), count(counts.bannedKeys))
  drawAttention()
}

/** @param {string} change */
export function drawShell(change) {
  if (change === 'overview') drawOverview()
  if (change === 'state') {
    drawState()
    drawOverview()
  }
}

/** Asks for a token after a 401; undefined: the operator has cancelled. @param {boolean} refused */
export const askForToken = (refused) => {
  const input = h('input', {
    type: 'password',
    name: 'token',
    autocomplete: 'off',
    autofocus: true,
  })
  return confirmed({
    title: 'This gateway asks for a token',
    content: [
      refused ? h('p', { class: 'fault', role: 'alert' }, '■ The token was refused.') : '',
      h(
        'p',
        {},
        'The one of admin.tokenSha256. It is kept in the memory of this page, and is gone when the page is.',
      ),
      h('p', { class: 'field' }, h('label', {}, h('span', {}, 'Token'), input)),
    ],
    confirm: 'Use this token',
    busy: 'Asking…',
    harmless: true,
    ready: () => input.value !== '',
    act: () => Promise.resolve(input.value),
  })
}

const keyBox = /** @type {HTMLInputElement} */ (part('single-keys'))
const helpBox = /** @type {HTMLDialogElement} */ (part('keys'))

/** @param {string} theme */
function setTheme(theme) {
  document.documentElement.dataset['theme'] = theme
  setSetting('theme', theme)
  redrawCharts()
}
function toggleTheme() {
  const { theme } = document.documentElement.dataset
  const isDark = theme ? theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  setTheme(isDark ? 'light' : 'dark')
}

/** @type {Record<string, string>} */
const places = {
  o: '',
  c: 'clients',
  b: 'bans',
  r: 'routes',
  s: 'system',
  f: 'config',
  e: 'explain',
}
/** @type {Record<string, () => void>} */
const keys = {
  '/': () => document.querySelector('input')?.focus(),
  p: () => pause(!live.paused),
  r: () =>
    document
      .querySelectorAll('button.reorder')
      .forEach((one) => /** @type {HTMLElement} */ (one).click()),
  t: toggleTheme,
  '?': () => helpBox.showModal(),
}
let goingMs = 0

/** @param {KeyboardEvent} event */
function press(event) {
  const { target, key } = event
  const isTyping = target instanceof Element && target.matches('input, select, textarea')
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return
  if (!keyBox.checked || document.querySelector('dialog[open]') !== null) return
  const place = places[key]
  const isGoing = Date.now() - goingMs < 1_500
  goingMs = key === 'g' ? Date.now() : 0
  if (isGoing && place !== undefined) location.hash = `#/${place}`
  else if (keys[key] !== undefined) keys[key]()
  else return
  event.preventDefault()
}

export function startShell() {
  const theme = setting('theme')
  if (theme !== null) setTheme(theme)
  keyBox.checked = setting('keys') !== 'off'
  keyBox.addEventListener('change', () => setSetting('keys', keyBox.checked ? 'on' : 'off'))
  part('help-close').addEventListener('click', () => helpBox.close())
  document.addEventListener('keydown', press)
  part('pause').addEventListener('click', () => pause(!live.paused))
  part('theme').addEventListener('click', toggleTheme)
  part('help').addEventListener('click', () => helpBox.showModal())
  part('stale-now').addEventListener('click', reconnect)
  const menu = part('menu')
  const open = (/** @type {boolean} */ isOpen) => {
    menu.setAttribute('aria-expanded', String(isOpen))
    document.querySelector('header')?.classList.toggle('open', isOpen)
  }
  menu.addEventListener('click', () => open(menu.getAttribute('aria-expanded') !== 'true'))
  addEventListener('hashchange', () => open(false))
  const search = part('search')
  search.addEventListener('submit', (event) => {
    event.preventDefault()
    const asked = /** @type {HTMLInputElement} */ (search.querySelector('input')).value.trim()
    location.hash = asked === '' ? '#/clients' : `#/clients?q=${encodeURIComponent(asked)}`
  })
}
