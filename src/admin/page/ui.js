/** Parts of views, and what they show while they load or fail. */
import { askAgain, call, Fault } from './api.js'
import { h, svg, write } from './dom.js'
import { clock, relative, UNKNOWN } from '../../insight/format.js'
import { now } from './live.js'

export { h, svg, write }

/** A state as a word, a shape and a colour. @param {'ok' | 'warn' | 'bad' | 'none'} kind @param {string} text */
export const state = (kind, text) =>
  h('span', { class: `is ${kind}` }, `${{ ok: '●', warn: '▲', bad: '■', none: '○' }[kind]} ${text}`)

/** Box for words to search for. @param {string | null} value */
export const searchBox = (value) => {
  const box = h('input', { type: 'search', autocomplete: 'off', spellcheck: 'false' })
  box.value = value ?? ''
  return box
}

/** Filters above a table. @param {Record<string, Node>} controls by label */
export const filters = (controls) =>
  h(
    'form',
    { class: 'filters', onsubmit: (event) => event.preventDefault() },
    ...Object.entries(controls).map(([text, control]) => h('label', {}, `${text} `, control)),
  )

/** @param {Record<string, string>} options by value @param {string} chosen */
export const choice = (options, chosen) => {
  const made = Object.entries(options).map(([value, text]) => h('option', { value }, text))
  const select = h('select', {}, ...made)
  select.value = chosen
  return select
}

/** Bar of a share, which the text beside it states in numbers. @param {number | null} share */
export function bar(share) {
  const shown = Math.min(share ?? 0, 1) * 100
  const kind = (share ?? 0) >= 1 ? 'bad' : (share ?? 0) >= 0.8 ? 'warn' : 'ok'
  return svg(
    'svg',
    {
      class: `share ${kind}`,
      viewBox: '0 0 100 8',
      preserveAspectRatio: 'none',
      'aria-hidden': 'true',
    },
    svg('rect', { width: 100, height: 8, class: 'track' }),
    svg('rect', { width: shown, height: 8, class: 'fill' }),
  )
}

/** Time in words: 14:07:31Z 41 s ago @param {string | null} iso @param {'both' | 'relative' | 'clock'} [how] */
export function timeText(iso, how = 'both') {
  if (iso === null) return UNKNOWN
  const atMs = Date.parse(iso)
  const parts = { clock: clock(atMs, now()), relative: relative(atMs, now()) }
  return how === 'both' ? `${parts.clock} ${parts.relative}` : parts[how]
}
/** Time in words, with its machine-readable and local forms. @param {string | null} iso @param {'both' | 'relative' | 'clock'} [how] */
export const time = (iso, how) =>
  iso === null
    ? UNKNOWN
    : h('time', { datetime: iso, title: new Date(iso).toString() }, timeText(iso, how))

/** @param {string} text @param {() => unknown} act @param {Record<string, string>} [attributes] */
export const button = (text, act, attributes = {}) =>
  h('button', { type: 'button', onclick: act, ...attributes }, text)

/** @param {unknown} error @param {() => unknown} [retry] */
export function faultBox(error, retry) {
  const fault = error instanceof Fault ? error : new Fault('', String(error))
  const problems = fault.problems.map((problem) => h('li', {}, problem))
  return h(
    'div',
    { class: 'fault', role: 'alert' },
    `■ ${fault.path === '' ? '' : `${fault.path}: `}${fault.message}`,
    fault.status === 0 ? '' : ` (${fault.status} ${fault.code ?? ''})`,
    problems.length > 0 && h('ul', {}, ...problems),
    retry && ' ',
    retry &&
      button('Retry', () => {
        askAgain()
        return retry()
      }),
  )
}

/**
 * Answer that is requested again and again. The last one stays visible while requests fail.
 * @template Answer
 * @param {string | (() => string)} path
 * @param {(answer: Answer) => void} draw
 */
export function source(path, draw) {
  const note = h('div', { class: 'note' })
  let asked = 0
  const load = async () => {
    const mine = ++asked
    try {
      /** @type {Answer & { missing?: readonly string[] }} */
      const answer = await call(typeof path === 'string' ? path : path())
      if (mine !== asked) return
      note.replaceChildren()
      if (answer.missing !== undefined && answer.missing.length > 0)
        note.append(h('p', { class: 'missing' }, `▲ Incomplete: ${answer.missing.join('; ')}`))
      draw(answer)
    } catch (error) {
      if (mine !== asked) return
      const text = error instanceof Fault ? error.message : String(error)
      // A repeated fault is shown once.
      if (note.dataset['fault'] !== text || note.firstChild === null)
        note.replaceChildren(faultBox(error, load))
      note.dataset['fault'] = text
    }
  }
  return { note, load }
}
