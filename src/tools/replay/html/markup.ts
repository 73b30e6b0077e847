/** Builds HTML from untrusted texts, such as file names and ids of a log: no text becomes markup, and none hides a character. */
import type { Column } from '../../columns.ts'
import type { Table } from '../tables.ts'

/** Text that is markup already. */
export class Markup {
  readonly html: string
  constructor(html: string) {
    this.html = html
  }
}
/** Content of an element; false and undefined write nothing. */
export type Content = Markup | string | number | false | undefined | readonly Content[]

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Shows control characters, direction marks and lone surrogates by their number, so that no name looks like another. */
const visible = (text: string): string =>
  text.replace(
    /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu,
    (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`,
  )

const written = (content: Content): string => {
  if (content === undefined || content === false) return ''
  if (content instanceof Markup) return content.html
  if (typeof content === 'object') return content.map(written).join('')
  return visible(String(content)).replace(/[&<>"']/g, (char) => entities[char] ?? char)
}

export const markup = (strings: TemplateStringsArray, ...values: Content[]): Markup =>
  new Markup(String.raw({ raw: strings }, ...values.map(written)))

const LONGEST_NAME = 160

/** Isolates a name, so that it cannot change the direction of the text around it. */
export const named = (name: string): Markup =>
  markup`<bdi>${name.length > LONGEST_NAME ? `${name.slice(0, LONGEST_NAME)}…` : name}</bdi>`

/** Writes JSON for `script type="application/json"`; no text in it ends the script. */
export const data = (value: unknown): Markup =>
  new Markup(JSON.stringify(value).replaceAll('<', String.raw`\u003c`))

/** Writes a time such as 2026-11-02 19:12:07Z. */
export const moment = (at: string | null): Content =>
  at === null ? '–' : markup`<time datetime="${at}">${at.slice(0, 19).replace('T', ' ')}Z</time>`

function cellOf<Row>(column: Column<Row>, row: Row): Content {
  const text = column.text(row)
  if (column.kind === 'time') return moment(column.plain(row) as string | null)
  return column.kind === 'number' ? text : named(text)
}

/** Renders a table, whose first column names the rows. id: lets the page's script find it. */
export function table<Row>(caption: string, { columns, rows }: Table<Row>, id?: string): Markup {
  const heads = columns.map(({ head, kind }, at) => ({
    text: head === '' ? caption : head.charAt(0) + head.slice(1).toLowerCase(),
    kind: at === 0 ? 'title' : kind === 'number' ? kind : '',
  }))
  const heading = heads.map(
    ({ text, kind }) => markup`<th scope="col" role="columnheader" class="${kind}">${text}</th>`,
  )
  const line = (row: Row): Markup => {
    const cells = heads.map(({ text, kind }, at) => {
      const column = columns[at]
      return markup`<td role="cell" class="${kind}" data-head="${text}">${column && cellOf(column, row)}</td>`
    })
    return markup`<tr role="row">${cells}</tr>\n`
  }
  return markup`<div class="table"${id && markup` id="${id}" role="region" aria-label="${caption}, table" tabindex="0"`}>
<table role="table" aria-label="${caption}">
<thead role="rowgroup"><tr role="row">${heading}</tr></thead>
<tbody role="rowgroup">${rows.map(line)}</tbody>
</table></div>`
}
