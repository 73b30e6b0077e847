/** The page of a replay: the overall outcome, clients and plans, limits that would fit, what was read. Its numbers are there without its script. */
import { readFileSync } from 'node:fs'
import { libraries, scriptText } from '../../../admin/page-assets.ts'
import { windowNames } from '../../../config/time.ts'
import { count, duration } from '../../../insight/format.js'
import type { ReplayReport, Suggestions } from '../report.ts'
import {
  clientColumns,
  limitsTable,
  outcomeTable,
  percentOf,
  plansTable,
  verdict,
} from '../tables.ts'
import { data, markup, moment, named, page, table, type Content, type Markup } from './markup.ts'

/** Values on the page that the report does not have. */
interface Titles {
  /** Path of the configuration; `against` is that of the one given by --against. */
  readonly config: string
  readonly against?: string | undefined
  readonly version: string
  readonly madeAtMs: number
  /** What was left out, came late or differs from the log, a line each. */
  readonly remarks: readonly string[]
}

/** Joins modules into one scope; each follows those that it imports. */
const asOneScript = (modules: readonly string[]): string =>
  modules
    .map(scriptText)
    .join('\n')
    .replaceAll(/^import [^]*?';?$/gm, '')
    .replaceAll(/^export (?:\{.*\}$)?/gm, '')

const shared = ['config/time.ts', 'insight/format.js', 'admin/page/chart.ts']
const modules = [...shared, 'tools/replay/html/page/report.js']

/** Returns at most 2 MiB, however many clients there are. */
export function reportPage(report: ReplayReport, titles: Titles): string {
  const plot = (part: 'uplot.js' | 'uplot.css') => readFileSync(libraries[part](), 'utf8')
  const script = `(() => {\n'use strict'\n${asOneScript(modules)}})()`
  const all = markup`${body(report, titles)}
<script type="application/json" id="over-time">${data(report.overTime)}</script>`
  const title = `Replay of ${titles.config} · Tollgate`
  return page(title, all, plot('uplot.css'), plot('uplot.js'), script)
}

const section = (title: string, ...content: Content[]): Markup => {
  const id = `t-${title.toLowerCase().replaceAll(/[^a-z]+/g, '-')}`
  return markup`<section aria-labelledby="${id}"><h2 id="${id}">${title}</h2>
${content}</section>`
}

function body(report: ReplayReport, titles: Titles): Markup {
  const { config, against, version, madeAtMs, remarks } = titles
  const madeAt = moment(new Date(madeAtMs).toISOString())
  const step = duration(report.overTime.stepSeconds * 1_000)
  const versus = against === undefined ? '' : markup` against ${named(against)}`
  return markup`<a class="unseen" href="#report">Skip to content</a>
<header><div class="bar"><strong class="brand">Tollgate</strong>
<span id="gateway">replay by version ${version}, ${madeAt}</span></div></header>
<main id="report" tabindex="-1">
<h1>Replay of ${named(config)}${versus}</h1>
<p class="says">${verdict(report)}</p>
${table('Outcome', outcomeTable(report))}
${section(
  'Over time',
  markup`<p class="muted">A point is ${step}. All times are UTC.</p>
<div id="charts" class="charts"><noscript>The plots need JavaScript; all numbers are in the tables.</noscript></div>`,
)}
${section('By plan', table('By plan', plansTable(report)))}
${report.suggestions && section('Limits that would fit', limits(report.suggestions))}
${section('Clients', clients(report))}
${section('Read', readList(report, remarks))}
</main>`
}

const MOST_CLIENTS = 1_000

/** The clients with the most refusals, or with the largest increase, come first. */
function clients(report: ReplayReport): Content {
  const { length } = report.clients
  const rows = report.clients.slice(0, MOST_CLIENTS)
  return [
    length > MOST_CLIENTS &&
      markup`<p class="muted">The first ${count(MOST_CLIENTS)} of ${count(length)} clients; all of them: --json</p>`,
    table('Clients', { columns: clientColumns(report, true), rows }, 'clients'),
  ]
}

/** Renders the busiest windows of each plan's clients, and limits under which a share of its requests is refused. */
function limits(suggestions: Suggestions): Content {
  const { share, until } = suggestions
  return [
    markup`<p class="muted">P50, P95, P99: so many of the clients had no busier ${windowNames.join(' or ')}. At ${percentOf(share)}: the plan's limits, in their present proportion, under which at most this share of its requests would have been refused.</p>`,
    until !== null &&
      markup`<p>Of the log up to ${moment(until)}: what comes after it was too much to keep.</p>`,
    table('Limits that would fit', limitsTable(suggestions)),
  ]
}

const MOST_NAMES = 100

const names = (all: readonly string[]): Content => [
  all.slice(0, MOST_NAMES).map((name, at) => [at > 0 && ', ', named(name)]),
  all.length > MOST_NAMES && `, and ${count(all.length - MOST_NAMES)} more`,
]

function readList({ from, to, revision, read }: ReplayReport, remarks: readonly string[]): Content {
  const rows: readonly (readonly [string, Content])[] = [
    ['Files', names(read.files)],
    ['Lines', count(read.lines)],
    ['Time', [moment(from), ' to ', moment(to)]],
    ['Revision', revision],
    ['Revisions in the log', read.revisions.length === 0 ? 'none' : names(read.revisions)],
  ]
  return [
    markup`<dl>${rows.map(([head, cell]) => markup`<dt>${head}</dt><dd>${cell}</dd>\n`)}</dl>`,
    remarks.map((line) => markup`<p>${named(line)}</p>\n`),
  ]
}
