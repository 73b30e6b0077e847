/** Keys that do what the controls do, their help, and what this browser remembers: the theme, and whether single keys are on. */
import { redrawCharts } from './chart.js'
import { live, pause } from './live.js'

/** @param {string} id */
const part = (id) => document.getElementById(id)
const keyBox = /** @type {HTMLInputElement} */ (part('single-keys'))
const helpBox = /** @type {HTMLDialogElement} */ (part('keys'))

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

/** @param {string} theme */
function setTheme(theme) {
  document.documentElement.style.colorScheme = theme
  setSetting('theme', theme)
  redrawCharts()
}
export function toggleTheme() {
  const { colorScheme } = document.documentElement.style
  const isDark = colorScheme
    ? colorScheme === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches
  setTheme(isDark ? 'light' : 'dark')
}
export const showHelp = () => helpBox.showModal()

/** Path and name of each view, and its key after `g`. */
export const places = /** @type {const} */ ([
  ['/', 'Overview', 'o'],
  ['/clients', 'Clients', 'c'],
  ['/bans', 'Bans', 'b'],
  ['/routes', 'Routes', 'r'],
  ['/system', 'System', 's'],
  ['/config', 'Config', 'f'],
  ['/explain', 'Explain', 'e'],
])
/** @type {Record<string, () => void>} */
const keys = {
  '/': () => document.querySelector('input')?.focus(),
  p: () => pause(!live.paused),
  r: () =>
    document.querySelectorAll('button').forEach((one) => one.matches('.reorder') && one.click()),
  t: toggleTheme,
  '?': showHelp,
}
let goingMs = 0

/** @param {KeyboardEvent} event */
function press(event) {
  const { target, key } = event
  const isTyping = target instanceof Element && target.matches('input, select, textarea')
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return
  if (!keyBox.checked || document.querySelector('dialog[open]') !== null) return
  const [path] = places.find(([, , own]) => own === key) ?? []
  const isGoing = Date.now() - goingMs < 1_500
  goingMs = key === 'g' ? Date.now() : 0
  if (isGoing && path !== undefined) location.hash = path
  else if (keys[key] !== undefined) keys[key]()
  else return
  event.preventDefault()
}

export function startKeys() {
  const theme = setting('theme')
  if (theme !== null) setTheme(theme)
  keyBox.checked = setting('keys') !== 'off'
  keyBox.addEventListener('change', () => setSetting('keys', keyBox.checked ? 'on' : 'off'))
  part('help-close')?.addEventListener('click', () => helpBox.close())
  document.addEventListener('keydown', press)
}
