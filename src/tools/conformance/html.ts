/** Renders the report as one page that needs neither scripts nor the network. */
import { createHash } from 'node:crypto'
import { markup, Markup } from '../replay/html/markup.ts'
import { inOneLine } from './suite.ts'
import type { Report } from './suite.ts'

const style = `:root{color-scheme:light dark}
body{font:15px/1.45 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:.35rem .6rem;border-bottom:1px solid #8886}
td:nth-child(2){white-space:nowrap;font-weight:600}
.holds{color:light-dark(#0a6b2d,#6fdc94)}
.broken{color:light-dark(#b3261e,#ff9c94)}
.cannot-tell{color:light-dark(#7a5200,#f2c261)}
small{color:light-dark(#555,#aaa)}
@media print{body{margin:0}}`

const hash = createHash('sha256').update(style).digest('base64')

export function reportPage(report: Report): string {
  const { perMinute, perDay } = report.limits
  const rows = report.checks.map(
    ({ name, verdict, seen, rule, source }) =>
      markup`<tr><td>${name}</td><td class="${verdict.replace(' ', '-')}">${verdict}</td><td>${seen}</td><td>${rule}<br><small>${source}</small></td></tr>\n`,
  )
  return markup`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-${hash}'">
<title>Conformance of ${report.target}</title><style>${new Markup(style)}</style></head><body><main>
<h1>Conformance of ${report.target}</h1>
<p>${perMinute} a minute, ${perDay} a day. ${inOneLine(report)}, from ${report.startedAt}.</p>
<table><thead><tr><th scope="col">Check</th><th scope="col">Verdict</th><th scope="col">Seen</th><th scope="col">Rule</th></tr></thead>
<tbody>
${rows}</tbody></table></main></body></html>
`.html
}
