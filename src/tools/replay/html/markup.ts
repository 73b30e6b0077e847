/** Builds HTML from untrusted texts, such as file names and ids of a log: no text becomes markup, and none hides a character. */
import { hash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { byNumber, type Column } from '../../columns.ts'
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

/** Shows control characters, direction marks and lone surrogates by their number, so that no name looks like another. */
const visible = (text: string): string =>
  text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, byNumber)

const written = (content: Content): string => {
  if (content === undefined || content === false) return ''
  if (content instanceof Markup) return content.html
  if (typeof content === 'object') return content.map(written).join('')
  return visible(String(content)).replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`)
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
  if (column.kind === 'time') return moment(column.plain(row) as string | null)
  const text = column.kind === 'id' ? named(column.text(row)) : column.text(row)
  const colour = column.colour?.(row)
  return colour === undefined ? text : markup`<span class="${classes[colour]}">${text}</span>`
}

/** Classes of the operators' page. */
const classes = { green: 'ok', yellow: 'warn', red: 'bad', dim: 'muted' } as const

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

const file = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8')
const digestOf = (text: string): string => `'sha256-${hash('sha256', text, 'base64')}'`

/** Renders a page that needs no network and no other file. style: what comes before the styles of all pages. */
export function page(title: string, body: Markup, style = '', ...scripts: string[]): string {
  const styles = `${style}\n${file('../../../admin/page/style.css')}\n${file('./page/report.css')}`
  const permitted = scripts.map(digestOf).join(' ') || "'none'"
  const policy = `default-src 'none'; script-src ${permitted}; style-src ${digestOf(styles)}; base-uri 'none'; form-action 'none'`
  // The digests in the policy hold for the unchanged text only.
  const raw = (text: string): Markup => new Markup(text)
  return markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${raw(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title}</title>
<style>${raw(styles)}</style>
</head>
<body>
${body}
${scripts.map((script) => markup`<script>${raw(script)}</script>\n`)}</body>
</html>
`.html
}
