/** Questions before a change, and messages about its result. A dialog stays open until the answer arrives, and shows any fault itself. */
import {
  button,
  faultBox,
  html,
  render,
  useEffect,
  useLayoutEffect,
  useRef,
  useState,
} from './ui.js'

/** @import { Child } from './ui.js' */

const UNDO_MS = 10_000

/** Values of the form by name. @typedef {Record<string, string>} Values */
/**
 * @template Result
 * @typedef {object} Question
 * @property {string} title
 * @property {(values: Values) => Child} content what changes, for whom, from when on
 * @property {Values} [values] that the form begins with
 * @property {string} confirm
 * @property {string} busy
 * @property {boolean} [harmless]
 * @property {(values: Values) => boolean} [isReady]
 * @property {(values: Values) => Promise<Result>} act
 * @property {(result: Result) => void} [done]
 */

/** Draws a component into an element of its own, which `close` removes. @param {Element | null} parent @param {(close: () => void) => Child} draw */
function show(parent, draw) {
  const box = document.createElement('div')
  parent?.append(box)
  const close = () => {
    render(null, box)
    box.remove()
  }
  render(draw(close), box)
}

/**
 * @template Result
 * @param {Question<Result>} question
 * @returns {Promise<Result | undefined>} undefined: the dialog was cancelled.
 */
export const confirmed = (question) =>
  new Promise((resolve) => {
    const opener = document.activeElement
    show(document.body, (close) => {
      const end = (/** @type {{ result: Result } | undefined} */ done) => {
        close()
        // The change may have removed the control that opened the dialog.
        if (done === undefined && opener instanceof HTMLElement) opener.focus()
        else document.querySelector('h1')?.focus()
        resolve(done?.result)
      }
      return html`<${Dialog} question=${question} end=${end} />`
    })
  })

/** @template Result @param {{ question: Question<Result>, end: (done: { result: Result } | undefined) => void }} props */
function Dialog({ question, end }) {
  const { title, content, confirm, busy, harmless = false, isReady = () => true } = question
  const [values, take] = useState(question.values ?? {})
  const [isBusy, setBusy] = useState(false)
  const [fault, setFault] = useState(/** @type {unknown} */ (undefined))
  /** @type {{ current: HTMLDialogElement | null }} */
  const dialog = useRef(null)
  /** @type {{ current: { result: Result } | undefined }} */
  const done = useRef(undefined)
  useLayoutEffect(() => dialog.current?.showModal(), [])
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault()
    setBusy(true)
    setFault(undefined)
    try {
      const result = await question.act(values)
      done.current = { result }
      dialog.current?.close()
      question.done?.(result)
    } catch (error) {
      setFault(error)
      setBusy(false)
    }
  }
  const read = (/** @type {{ currentTarget: HTMLFormElement }} */ { currentTarget }) =>
    take(/** @type {Values} */ (Object.fromEntries(new FormData(currentTarget))))
  return html`<dialog aria-labelledby="dialog-title" ref=${dialog} onClose=${() => end(done.current)}>
    <form onInput=${read} onSubmit=${submit}>
      <h2 id="dialog-title">${title}</h2>
      ${content(values)}
      <div>${fault !== undefined && faultBox(fault)}</div>
      <p class="actions">
        ${button('Cancel', () => dialog.current?.close(), { autofocus: true })}
        <button
          type="submit"
          class=${harmless ? 'main' : 'danger'}
          disabled=${isBusy || !isReady(values)}
        >
          ${isBusy ? busy : confirm}
        </button>
      </p>
    </form>
  </dialog>`
}

/** Control of a form with its name before it. @param {string} text @param {Child} control @param {string} [hint] */
export const field = (text, control, hint) => html`<p class="field">
  <label><span>${text}</span>${control}</label>
  ${hint !== undefined && html`<small>${hint}</small>`}
</p>`

/**
 * Says what was done and how to undo it, for ten seconds, or longer while a pointer or the focus is on it.
 * @param {string} text
 * @param {{ label: string, act: () => void }} [undo]
 */
export const toast = (text, undo) =>
  show(
    document.querySelector('#toasts'),
    (close) => html`<${Toast} text=${text} undo=${undo} close=${close} />`,
  )

/** @param {{ text: string, undo?: { label: string, act: () => void }, close: () => void }} props */
function Toast({ text, undo, close }) {
  const [isHeld, hold] = useState(false)
  useEffect(() => {
    const timer = isHeld ? undefined : setTimeout(close, UNDO_MS)
    return () => clearTimeout(timer)
  }, [isHeld])
  const goBack = () => {
    close()
    undo?.act()
  }
  return html`<div
    class="toast"
    onPointerEnter=${() => hold(true)}
    onFocusIn=${() => hold(true)}
    onPointerLeave=${() => hold(false)}
    onFocusOut=${() => hold(false)}
  >
    <span role="status">${text}</span>
    ${undo && button(undo.label, goBack)} ${button('Close', close)}
  </div>`
}
