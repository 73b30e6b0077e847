/** Questions before a change, and messages about its result. A dialog stays open until the answer arrives, and shows any fault itself. */
import { faultBox, button, h } from './ui.js'

const UNDO_MS = 10_000

/**
 * @template Result
 * @param {object} question
 * @param {string} question.title
 * @param {(Node | string)[]} question.content what changes, for whom, from when on
 * @param {string} question.confirm
 * @param {string} question.busy
 * @param {boolean} [question.harmless]
 * @param {(form: HTMLFormElement) => boolean} [question.ready] called on every input
 * @param {(form: HTMLFormElement) => Promise<Result>} question.act
 * @param {(result: Result) => void} [question.done]
 * @returns {Promise<Result | undefined>} undefined: the dialog was cancelled.
 */
export function confirmed({
  title,
  content,
  confirm,
  busy,
  harmless = false,
  ready = () => true,
  act,
  done,
}) {
  const opener = document.activeElement
  const faults = h('div')
  const cancel = button('Cancel', () => dialog.close(), { autofocus: '' })
  const go = h('button', { type: 'submit', class: harmless ? 'main' : 'danger' }, confirm)
  const form = h(
    'form',
    {},
    h('h2', { id: 'dialog-title' }, title),
    ...content,
    faults,
    h('p', { class: 'actions' }, cancel, go),
  )
  const dialog = h('dialog', { 'aria-labelledby': 'dialog-title' }, form)
  /** @type {Result | undefined} */
  let result
  let isDone = false
  const judge = () => void (go.disabled = !ready(form))
  form.addEventListener('input', judge)
  const submit = async () => {
    go.disabled = true
    go.textContent = busy
    faults.replaceChildren()
    try {
      result = await act(form)
      isDone = true
      dialog.close()
      done?.(result)
    } catch (error) {
      faults.replaceChildren(faultBox(error))
      go.textContent = confirm
      judge()
    }
  }
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    void submit()
  })
  document.body.append(dialog)
  judge()
  dialog.showModal()
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      dialog.remove()
      // The change may have removed the control that opened the dialog.
      if (!isDone && opener instanceof HTMLElement) opener.focus()
      else document.querySelector('h1')?.focus()
      resolve(result)
    })
  })
}

/**
 * Says what was done and how to undo it, for ten seconds, or longer while a pointer or the focus is on it.
 * @param {string} text
 * @param {{ label: string, act: () => void }} [undo]
 */
export function toast(text, undo) {
  const close = () => node.remove()
  const node = h('div', { class: 'toast' }, h('span', { role: 'status' }, text))
  if (undo !== undefined)
    node.append(
      button(undo.label, () => {
        close()
        undo.act()
      }),
    )
  node.append(button('Close', close))
  let timer = setTimeout(close, UNDO_MS)
  const hold = () => clearTimeout(timer)
  const release = () => {
    hold()
    timer = setTimeout(close, UNDO_MS)
  }
  node.addEventListener('pointerenter', hold)
  node.addEventListener('focusin', hold)
  node.addEventListener('pointerleave', release)
  node.addEventListener('focusout', release)
  document.querySelector('#toasts')?.append(node)
}
