/** Tables whose rows keep their place while a pointer, the focus or a selection is on them; their values still change. */
import { plural } from '../../insight/format.js'
import { html, useLayoutEffect, useRedraw, useRef } from './ui.js'

/** @import { Child } from './ui.js' */

/** kind: number, or how a card on a phone has it: title, wide, acts. @template Row @typedef {readonly [head: string, cell: (row: Row) => Child, kind?: string]} Column */
/**
 * What a table lists.
 * @template Row
 * @typedef {object} Listing
 * @property {string} caption
 * @property {(row: Row) => string} idOf
 * @property {string} [empty]
 * @property {readonly Column<Row>[]} columns
 */

const MOST_ROWS = 100

/** Whether somebody points at the table, has the focus in it, or has selected some of it. @param {HTMLElement} element */
function isHeld(element) {
  if (matchMedia('(hover: hover)').matches && element.matches(':hover')) return true
  if (element.contains(document.activeElement)) return true
  const selection = getSelection()
  return selection?.type === 'Range' && selection.containsNode(element, true)
}

/** rows: undefined while they are being loaded. @template Row @param {Listing<Row> & { rows: readonly Row[] | undefined }} options */
export function Table({ caption, columns, idOf, empty, rows }) {
  /** @type {{ current: HTMLElement | null }} */
  const element = useRef(null)
  const shown = useRef(/** @type {readonly Row[]} */ ([]))
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
    ${
      waits &&
      html`<button type="button" class="reorder" onClick=${reorder}>
      ${plural(moved, 'row')} would move: Reorder
    </button>`
    }
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

/** @param {Column<any>} column */
const headOf = ([head, , kind]) => html`
  <th scope="col" role="columnheader" class=${kind?.includes('number') ? 'number' : ''}>${head}</th>`

/** @template Row @param {Column<Row>} column @param {Row} row */
const cellOf = ([head, cell, kind = ''], row) => html`
  <td role="cell" data-head=${head} class=${kind}>${cell(row)}</td>`
