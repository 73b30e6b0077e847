/** Keys that do what the controls do, their help, and what this browser remembers: the theme, and whether single keys are on. */
import { redrawCharts } from './chart.ts'
import { show } from './dialog.ts'
import { live, pause } from './live.ts'
import { views } from './places.ts'
import { button, html } from './ui.ts'

/** Settings of this browser; undefined: it keeps none, and they last as long as the page. */
function settings() {
  try {
    return localStorage
  } catch {
    return undefined
  }
}

function setTheme(theme: string) {
  document.documentElement.style.colorScheme = theme
  settings()?.setItem('tollgate.theme', theme)
  redrawCharts()
}
export function toggleTheme() {
  const { colorScheme } = document.documentElement.style
  const isDark = colorScheme
    ? colorScheme === 'dark'
    : matchMedia('(prefers-color-scheme: dark)').matches
  setTheme(isDark ? 'light' : 'dark')
}

let areOn = settings()?.getItem('tollgate.keys') !== 'off'
function turnKeys({ currentTarget: { checked } }: { currentTarget: HTMLInputElement }) {
  areOn = checked
  settings()?.setItem('tollgate.keys', checked ? 'on' : 'off')
}

const keys: Record<string, readonly [does: string, act: () => void]> = {
  '/': ['search clients', () => document.querySelector('input')?.focus()],
  p: ['pause or resume', () => pause(!live.paused)],
  r: [
    'reorder the rows that wait',
    () => document.querySelectorAll<HTMLElement>('.reorder').forEach((one) => one.click()),
  ],
  t: ['light or dark', toggleTheme],
  '?': ['this help', showHelp],
}

export function showHelp() {
  const names = views.map(({ name }) => name.toLowerCase()).join(', ')
  show(
    document.body,
    (close) => html`<dialog
      aria-labelledby="keys-title"
      onClose=${close}
      ref=${(box: HTMLDialogElement | null) => box?.showModal()}
    >
      <h2 id="keys-title">Keys</h2>
      <dl>
        <dt><kbd>g</kbd> then${views.map(({ key }) => html` <kbd>${key}</kbd>`)}</dt>
        <dd>${names}</dd>
        ${Object.entries(keys).map(([key, [does]]) => html`<dt><kbd>${key}</kbd></dt><dd>${does}</dd>`)}
        <dt><kbd>Esc</kbd></dt>
        <dd>close a dialog</dd>
      </dl>
      <p>No key changes anything at the gateway. All times are UTC.</p>
      <p>
        <label><input type="checkbox" checked=${areOn} onChange=${turnKeys} /> Single keys are on</label>
      </p>
      <p class="actions">${button('Close', close, { autofocus: true })}</p>
    </dialog>`,
  )
}

let goingMs = 0
function press(event: KeyboardEvent) {
  const { target, key } = event
  const isTyping = target instanceof Element && target.matches('input, select, textarea')
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return
  if (!areOn || document.querySelector('dialog[open]') !== null) return
  const view = views.find((one) => one.key === key)
  const isGoing = Date.now() - goingMs < 1_500
  goingMs = key === 'g' ? Date.now() : 0
  if (isGoing && view !== undefined) location.hash = view.path
  else if (keys[key] !== undefined) keys[key][1]()
  else return
  event.preventDefault()
}

export function startKeys() {
  const theme = settings()?.getItem('tollgate.theme')
  if (theme) setTheme(theme)
  document.addEventListener('keydown', press)
}
