/** Tables whose rows keep their place while a pointer, the focus or a selection is on them; their values still change. */
import { plural } from '../../insight/format.js'
import { button, html, useLayoutEffect, useRedraw, useRef, type Child } from './ui.ts'

/** kind: number, or how a card on a phone has it: title, wide, acts. */
export type Column<Row> = readonly [head: string, cell: (row: Row) => Child, kind?: string]
export interface Listing<Row> {
  readonly caption: string
  readonly idOf: (row: Row) => string
  readonly empty?: string
  readonly columns: readonly Column<Row>[]
}

const MOST_ROWS = 400

/** Whether somebody points at the table, has the focus in it, or has selected some of it. */
function isHeld(element: HTMLElement) {
  if (matchMedia('(hover: hover)').matches && element.matches(':hover')) return true
  if (element.contains(document.activeElement)) return true
  const selection = getSelection()
  return selection?.type === 'Range' && selection.containsNode(element, true)
}

/** rows: undefined while they are being loaded. */
export function Table<Row>(given: Listing<Row> & { rows: readonly Row[] | undefined }) {
  const { caption, columns, idOf, empty, rows } = given
  const element = useRef<HTMLElement>(null)
  const shown = useRef<readonly Row[]>([])
  const redraw = useRedraw()
  const latest = (rows ?? []).slice(0, MOST_ROWS)
  const known = new Map(latest.map((row) => [idOf(row), row]))
  const before = shown.current
  const moved =
    latest.filter((row, at) => before[at] === undefined || idOf(row) !== idOf(before[at])).length +
    Math.max(0, before.length - latest.length)
  const waits =
    moved > 0 && before.length > 0 && element.current !== null && isHeld(element.current)
  shown.current = waits ? before.map((row) => known.get(idOf(row)) ?? row) : latest
  const isReordered = useRef(false)
  const reorder = () => {
    shown.current = []
    isReordered.current = true
    redraw()
  }
  useLayoutEffect(() => {
    if (isReordered.current) element.current?.querySelector('a')?.focus()
    isReordered.current = false
  })
  const isEmpty = shown.current.length === 0
  return html`<div class="table">
    ${waits && button(`${plural(moved, 'row')} would move: Reorder`, reorder, { class: 'reorder' })}
    <table role="table" aria-label=${caption} hidden=${isEmpty} ref=${element}>
      <thead role="rowgroup">
        <tr role="row">
          ${columns.map(headOf)}
        </tr>
      </thead>
      <tbody role="rowgroup">
        ${shown.current.map(
          (row) => html`
            <tr role="row" key=${idOf(row)} class=${known.has(idOf(row)) ? '' : 'gone'}>
              ${columns.map((column) => cellOf(column, row))}
            </tr>`,
        )}
      </tbody>
    </table>
    <p class="empty ${rows === undefined ? 'loading' : ''}" hidden=${!isEmpty}>
      ${rows === undefined ? 'Loading…' : empty}
    </p>
    ${
      (rows?.length ?? 0) > MOST_ROWS &&
      html`<p class="muted">The first ${MOST_ROWS} of ${rows?.length}.</p>`
    }
  </div>`
}

const headOf = <Row>([head, , kind]: Column<Row>) => html`
  <th scope="col" role="columnheader" class=${/number|acts/.exec(kind ?? '')?.[0]}>${head}</th>`

const cellOf = <Row>([head, cell, kind = '']: Column<Row>, row: Row) => html`
  <td role="cell" data-head=${head} class=${kind}>${cell(row)}</td>`
