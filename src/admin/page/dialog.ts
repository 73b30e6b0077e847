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
  type Child,
} from './ui.ts'

const UNDO_MS = 10_000

type Values = Readonly<Record<string, string>>
interface Question {
  readonly title: string
  /** Says what changes, for whom, from when on. */
  readonly content: (values: Values) => Child
  /** The form begins with them. */
  readonly values?: Values
  readonly confirm: string
  readonly busy: string
  readonly harmless?: boolean
  readonly isReady?: (values: Values) => boolean
  /** Resolves to what follows once the dialog is closed. */
  readonly act: (values: Values) => Promise<() => void>
}

/** Draws a component into an element of its own, which `close` removes. */
export function show(parent: Element | null, draw: (close: () => void) => Child) {
  const box = document.createElement('div')
  parent?.append(box)
  const close = () => {
    render(null, box)
    box.remove()
  }
  render(draw(close), box)
}

/** Resolves when the dialog is closed, be it by a cancel. */
export const confirmed = (question: Question): Promise<void> =>
  new Promise((resolve) => {
    const opener = document.activeElement
    show(document.body, (close) => {
      const end = (isDone: boolean) => {
        close()
        // The change may have removed the control that opened the dialog.
        if (!isDone && opener instanceof HTMLElement) opener.focus()
        else document.querySelector('h1')?.focus()
        resolve()
      }
      return html`<${Dialog} question=${question} end=${end} />`
    })
  })

function Dialog({ question, end }: { question: Question; end: (isDone: boolean) => void }) {
  const { title, content, confirm, busy, harmless = false, isReady = () => true } = question
  const [values, take] = useState(question.values ?? {})
  const [isBusy, setBusy] = useState(false)
  const [fault, setFault] = useState<unknown>(undefined)
  const dialog = useRef<HTMLDialogElement>(null)
  const isDone = useRef(false)
  useLayoutEffect(() => dialog.current?.showModal(), [])
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    setBusy(true)
    setFault(undefined)
    try {
      const follow = await question.act(values)
      isDone.current = true
      dialog.current?.close()
      follow()
    } catch (error) {
      setFault(error)
      setBusy(false)
    }
  }
  const read = ({ currentTarget }: { currentTarget: HTMLFormElement }) =>
    take(Object.fromEntries(new FormData(currentTarget)) as Values)
  return html`<dialog aria-labelledby="dialog-title" ref=${dialog} onClose=${() => end(isDone.current)}>
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

/** Control of a form with its name before it. */
export const field = (text: string, control: Child, hint?: string) => html`<p class="field">
  <label><span>${text}</span>${control}</label>
  ${hint !== undefined && html`<small>${hint}</small>`}
</p>`

/** Says what was done and how to undo it, for ten seconds, or longer while a pointer or the focus is on it. */
export const toast = (text: string, undo?: Undo) =>
  show(
    document.querySelector('#toasts'),
    (close) => html`<${Toast} text=${text} undo=${undo} close=${close} />`,
  )

type Undo = { readonly label: string; readonly act: () => unknown }
function Toast({ text, undo, close }: { text: string; undo?: Undo; close: () => void }) {
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
