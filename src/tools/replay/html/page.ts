/** Renders the report of a replay as one page that needs no network and no other file. Its numbers are there without its script. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { libraries, withoutRemarks } from '../../../admin/page-assets.ts'
import { duration } from '../../../insight/format.js'
import type { ReplayReport } from '../report.ts'
import { data, markup, Markup, named, type Content } from './markup.ts'
import {
  clientsTable,
  limitsTable,
  logTable,
  moment,
  outcomeTable,
  plansTable,
  readList,
  verdict,
} from './sections.ts'

/** Values on the page that the report does not have. */
export interface Titles {
  /** Path of the configuration; `against` is that of the one given by --against. */
  readonly config: string
  readonly against?: string
  readonly version: string
  readonly madeAtMs: number
}

const file = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8')
/** Joins modules into one scope; each follows those that it imports. */
const asOneScript = (modules: readonly string[]): string =>
  modules
    .map((path) => withoutRemarks(file(path)))
    .join('\n')
    .replaceAll(/^import [^]*?'$/gm, '')
    .replaceAll(/^export (?:\{.*\}$)?/gm, '')

const styles = ['../../../admin/page/style.css', './page/report.css']
const fromThePage = [
  '../../../insight/format.js',
  ...['plot', 'chart'].map((name) => `../../../admin/page/${name}.js`),
]
const digest = (text: string): string =>
  `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** Returns at most 2 MiB, however many clients there are. */
export function reportPage(report: ReplayReport, titles: Titles): string {
  const plot = readFileSync(libraries['uplot.js'](), 'utf8')
  const script = `(() => {\n'use strict'\n${asOneScript([...fromThePage, './page/report.js'])}})()`
  const style = [readFileSync(libraries['uplot.css'](), 'utf8'), ...styles.map(file)].join('\n')
  const policy = `default-src 'none'; script-src ${digest(plot)} ${digest(script)}; style-src ${digest(style)}; base-uri 'none'; form-action 'none'`
  // The digests in the policy hold for the unchanged text only.
  const raw = (text: string): Markup => new Markup(text)
  return markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${raw(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Replay of ${titles.config} · Tollgate</title>
<style>${raw(style)}</style>
</head>
<body>
${body(report, titles)}
<script type="application/json" id="over-time">${data(report.overTime)}</script>
<script>${raw(plot)}</script>
<script>${raw(script)}</script>
</body>
</html>
`.html
}

const section = (title: string, ...content: Content[]): Markup => {
  const id = `t-${title.toLowerCase().replaceAll(/[^a-z]+/g, '-')}`
  return markup`<section aria-labelledby="${id}"><h2 id="${id}">${title}</h2>
${content}</section>`
}

function body(report: ReplayReport, { config, against, version, madeAtMs }: Titles): Markup {
  const madeAt = moment(new Date(madeAtMs).toISOString())
  const step = duration(report.overTime.stepSeconds * 1_000)
  const versus = against === undefined ? '' : markup` against ${named(against)}`
  return markup`<a class="skip" href="#report">Skip to content</a>
<header><div class="bar"><strong class="brand">Tollgate</strong>
<span id="gateway">replay by version ${version}, ${madeAt}</span></div></header>
<main id="report" tabindex="-1">
<h1>Replay of ${named(config)}${versus}</h1>
${verdict(report)}
${outcomeTable(report)}
${section(
  'Over time',
  markup`<p class="muted">A point is ${step}. All times are UTC.</p>
<div id="charts" class="charts"><noscript>The plots need JavaScript; all numbers are in the tables.</noscript></div>`,
)}
${section('By plan', plansTable(report))}
${report.suggestions && section('Limits that would fit', limitsTable(report.suggestions))}
${section('Clients', clientsTable(report))}
${report.log && section('Differs from the log', logTable(report.log))}
${section('Read', readList(report))}
</main>`
}
