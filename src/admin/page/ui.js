/** What views are made of: elements, small parts, and answers that are asked for again and again. */
import htm from 'htm'
import { h, render } from 'preact'
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks'
import { askAgain, call, Fault } from './api.js'
import { clock, relative, UNKNOWN } from '../../insight/format.js'
import { listen, live, now } from './live.js'

export { render, useEffect, useLayoutEffect, useRef, useState }

/** @import { ComponentChildren, VNode } from 'preact' */
/** @typedef {ComponentChildren} Child */
/** @typedef {'ok' | 'warn' | 'bad' | 'none'} Kind */

/** Element or component of a template; all text in it is set as text, never as HTML. @type {(parts: TemplateStringsArray, ...values: unknown[]) => VNode} */
export const html = /** @type {any} */ (htm).bind(h)

/** Returns a function that draws the component again. @returns {() => void} */
export const useRedraw = () => {
  const [, redraw] = useReducer((/** @type {number} */ drawn) => drawn + 1, 0)
  return () => redraw(undefined)
}

/** Draws the component again whenever the data about the moment changes; what is paused stays as it is. @param {{ whilePaused?: boolean }} [options] */
export function useLive({ whilePaused = false } = {}) {
  const redraw = useRedraw()
  useLayoutEffect(() => listen('change', () => (whilePaused || !live.paused) && redraw()), [])
}

/** @type {Record<Kind, string>} */
export const shapes = { ok: '●', warn: '▲', bad: '■', none: '○' }

/** A state as a word, a shape and a colour. @param {Kind} kind @param {string} text */
export const state = (kind, text) => html`<span class="is ${kind}">${shapes[kind]} ${text}</span>`

/** @param {string} text @param {() => unknown} act @param {Record<string, unknown>} [attributes] */
export const button = (text, act, attributes = {}) =>
  html`<button type="button" onClick=${act} ...${attributes}>${text}</button>`

/** Part of a view under a heading of its own. @param {string} title @param {...Child} content */
export const section = (title, ...content) => html`<section><h2>${title}</h2>${content}</section>`

/** Box for words to search for. @param {Record<string, unknown>} attributes */
export const searchBox = (attributes) =>
  html`<input type="search" autocomplete="off" spellcheck=${false} ...${attributes} />`

/** @param {Record<string, string>} options by value @param {string} chosen @param {Record<string, unknown>} attributes */
export const choice = (options, chosen, attributes) =>
  html`<select ...${attributes}>
    ${Object.entries(options).map(
      ([value, text]) => html`<option value=${value} selected=${value === chosen}>${text}</option>`,
    )}
  </select>`

/** @param {number} share */
const kindOfShare = (share) => (share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : 'ok')

/** Bar of a share, which the text beside it states in numbers. @param {number | null} share */
export const bar = (share) => html`
  <svg
    class="share ${kindOfShare(share ?? 0)}"
    viewBox="0 0 100 8"
    preserveAspectRatio="none"
    aria-hidden="true"
  >
    <rect width="100" height="8" fill="var(--line)" />
    <rect width=${Math.min(share ?? 0, 1) * 100} height="8" fill="currentcolor" />
  </svg>`

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
    : html`<time datetime=${iso} title=${String(new Date(iso))}>${timeText(iso, how)}</time>`

/** @param {unknown} error @param {() => unknown} [retry] */
export function faultBox(error, retry) {
  const { path, message, status, code, problems } =
    error instanceof Fault ? error : new Fault('', String(error))
  const again = () => {
    askAgain()
    return retry?.()
  }
  const where = path === '' ? '' : `${path}: `
  const kind = status === 0 ? '' : ` (${status} ${code ?? ''})`
  return html`<div class="fault" role="alert">
    ■ ${where}${message}${kind}
    ${problems.length > 0 && html`<ul>${problems.map((problem) => html`<li>${problem}</li>`)}</ul>`}
    ${retry && button('Retry', again)}
  </div>`
}

/** @param {readonly string[]} [missing] */
export const incomplete = (missing = []) =>
  missing.length > 0 && html`<p class="missing">▲ Incomplete: ${missing.join('; ')}</p>`

/**
 * Answer that is asked for again and again; the last one stays visible while requests fail.
 * @template Answer
 * @param {string} path
 * @param {number} [everyMs] the least time between two requests; Infinity: it is asked for once
 * @param {Parameters<typeof call>[1]} [how]
 * @returns {{ answer: (Answer & { missing?: readonly string[] }) | undefined, note: VNode, load: () => Promise<void> }}
 */
export function useAnswer(path, everyMs = 0, how = {}) {
  /** @type {[{ answer?: any, fault?: unknown }, (next: any) => void]} */
  const [{ answer, fault }, set] = useState({})
  const asked = useRef({ times: 0, atMs: -Infinity })
  const load = async () => {
    const mine = ++asked.current.times
    asked.current.atMs = Date.now()
    const said = await call(path, how).then(
      (answer) => ({ answer }),
      (fault) => {
        // What is refused for the moment alone is due again.
        if (fault.status === 429) asked.current.atMs = -Infinity
        return { fault }
      },
    )
    if (mine === asked.current.times)
      set((/** @type {object} */ known) => ({ ...known, fault: undefined, ...said }))
  }
  useEffect(() => {
    if (document.visibilityState !== 'hidden') void load()
    const ignore = listen('due', () => Date.now() - asked.current.atMs >= everyMs && load())
    return () => {
      ignore()
      asked.current.times++
    }
  }, [path])
  const note = html`<div class="note">
    ${fault === undefined ? incomplete(answer?.missing) : faultBox(fault, load)}
  </div>`
  return { answer, note, load }
}
