/** What views are made of: elements, small parts, and answers that are asked for again and again. */
import htm from 'htm'
import { h, render, type ComponentChildren, type VNode } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { askAgain, call, Fault, type How } from './api.ts'
import { clock, gatewaysText, relative, UNKNOWN } from '../../insight/format.js'
import { listen, live, now } from './live.ts'
import type { Gateways } from '../../insight/api/live.ts'

export { render, useEffect, useLayoutEffect, useRef, useState }

export type Child = ComponentChildren
export type Kind = 'ok' | 'warn' | 'bad' | 'none'

/** Element or component of a template; all text in it is set as text, never as HTML. */
export const html = (htm as unknown as typeof htm.default).bind(h) as Template
type Template = (parts: TemplateStringsArray, ...values: unknown[]) => VNode

export function useRedraw() {
  const [, redraw] = useState(0)
  return () => redraw((drawn) => drawn + 1)
}

/** Draws the component again whenever the data about the moment changes; what is paused stays as it is. */
export function useLive({ whilePaused = false }: { whilePaused?: boolean } = {}) {
  const redraw = useRedraw()
  useLayoutEffect(() => listen('change', () => (whilePaused || !live.paused) && redraw()), [])
}

export const shapes: Record<Kind, string> = { ok: '●', warn: '▲', bad: '■', none: '○' }

/** A state as a word, a shape and a colour. */
export const state = (kind: Kind, text: string) =>
  html`<span class="is ${kind}">${shapes[kind]} ${text}</span>`

type Attributes = Readonly<Record<string, unknown>>
export const button = (text: string, act: () => unknown, attributes: Attributes = {}) =>
  html`<button type="button" onClick=${act} ...${attributes}>${text}</button>`

/** Part of a view under a heading of its own. */
export const section = (title: string, ...content: Child[]) =>
  html`<section><h2>${title}</h2>${content}</section>`

export const searchBox = (attributes: Attributes) =>
  html`<input type="search" autocomplete="off" spellcheck=${false} ...${attributes} />`

type Options = Readonly<Record<string, string>>
/** options: texts by value. */
export const choice = (options: Options, chosen: string, attributes: Attributes) =>
  html`<select ...${attributes}>
    ${Object.entries(options).map(
      ([value, text]) => html`<option value=${value} selected=${value === chosen}>${text}</option>`,
    )}
  </select>`

const kindOfShare = (share: number) => (share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : 'ok')

/** Bar of a share, which the text beside it states in numbers. */
export const bar = (share: number | null) => html`
  <svg
    class="share ${kindOfShare(share ?? 0)}"
    viewBox="0 0 100 8"
    preserveAspectRatio="none"
    aria-hidden="true"
  >
    <rect width="100" height="8" fill="var(--line)" />
    <rect width=${Math.min(share ?? 0, 1) * 100} height="8" fill="currentcolor" />
  </svg>`

type TimeForm = 'both' | 'relative' | 'clock'
/** Time in words: 14:07:31Z 41 s ago */
export function timeText(iso: string | null, how: TimeForm = 'both') {
  if (iso === null) return UNKNOWN
  const atMs = Date.parse(iso)
  const parts = { clock: clock(atMs, now()), relative: relative(atMs, now()) }
  return how === 'both' ? `${parts.clock} ${parts.relative}` : parts[how]
}
/** Time in words, with its machine-readable and local forms. */
export const time = (iso: string | null, how?: TimeForm) =>
  iso === null
    ? UNKNOWN
    : html`<time datetime=${iso} title=${String(new Date(iso))}>${timeText(iso, how)}</time>`

export function faultBox(error: unknown, retry?: () => unknown) {
  const { path, message, said } = error instanceof Fault ? error : new Fault('', String(error))
  const problems = said?.problems ?? []
  const again = () => {
    askAgain()
    return retry?.()
  }
  const where = path === '' ? '' : `${path}: `
  const kind = said === undefined ? '' : ` (${said.status} ${said.code ?? ''})`
  return html`<div class="line bad" role="alert">
    ■ ${where}${message}${kind}
    ${problems.length > 0 && html`<ul>${problems.map((problem) => html`<li>${problem}</li>`)}</ul>`}
    ${retry && button('Retry', again)}
  </div>`
}

const incomplete = (missing: readonly string[] = []) =>
  missing.length > 0 && html`<p class="line warn">▲ Incomplete: ${missing.join('; ')}</p>`

interface Asked<Answer> {
  readonly answer:
    (Answer & { readonly missing?: readonly string[]; readonly gateways?: Gateways }) | undefined
  readonly note: VNode
  readonly load: () => Promise<void>
}
/** Answer that is asked for again and again; the last one stays visible while requests fail. everyMs: the least time between two requests; Infinity: it is asked for once. */
export function useAnswer<Answer>(path: string, everyMs = 0, how?: How): Asked<Answer> {
  const [{ answer, fault }, set] = useState<{ answer?: Asked<Answer>['answer']; fault?: unknown }>(
    {},
  )
  const asked = useRef({ times: 0, atMs: -Infinity })
  const load = async () => {
    const mine = ++asked.current.times
    asked.current.atMs = Date.now()
    const said = await call<Asked<Answer>['answer']>(path, how).then(
      (answer) => ({ answer }),
      (fault: unknown) => {
        // What is refused for the moment alone is due again.
        if (fault instanceof Fault && fault.said?.status === 429) asked.current.atMs = -Infinity
        return { fault }
      },
    )
    if (mine === asked.current.times) set((known) => ({ ...known, fault: undefined, ...said }))
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
    ${answer?.gateways && html`<p class="muted">Of ${gatewaysText(answer.gateways)}</p>`}
    ${fault === undefined ? incomplete(answer?.missing) : faultBox(fault, load)}
  </div>`
  return { answer, note, load }
}
