/** Renders the report of a replay as one page that needs no network and no other file. Its numbers are there without its script. */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { libraries, scriptText } from '../../../admin/page-assets.ts'
import type { ReplayReport } from '../report.ts'
import { data, markup, Markup } from './markup.ts'
import { body, type Titles } from './sections.ts'

const file = (path: string): string => readFileSync(new URL(path, import.meta.url), 'utf8')
/** Joins modules into one scope; each follows those that it imports. */
const asOneScript = (modules: readonly string[]): string =>
  modules
    .map(scriptText)
    .join('\n')
    .replaceAll(/^import [^]*?';?$/gm, '')
    .replaceAll(/^export (?:\{.*\}$)?/gm, '')

const styles = ['../../../admin/page/style.css', './page/report.css']
const ofThePage = ['insight/format.js', 'admin/page/chart.ts']
const digest = (text: string): string =>
  `'sha256-${createHash('sha256').update(text).digest('base64')}'`

/** Returns at most 2 MiB, however many clients there are. */
export function reportPage(report: ReplayReport, titles: Titles): string {
  const plot = readFileSync(libraries['uplot.js'](), 'utf8')
  const script = `(() => {\n'use strict'\n${asOneScript([...ofThePage, 'tools/replay/html/page/report.js'])}})()`
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
