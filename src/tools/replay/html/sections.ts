/** Renders the sections of a report: the overall outcome, clients and plans, limits that would fit, what was read. */
import { count, duration, plural } from '../../../insight/format.js'
import type { Outcome, ReplayReport, Suggestions } from '../report.ts'
import { percentOf, windowsOf } from '../suggest.ts'
import { firstOf, moreOf, refusedOf } from '../totals.ts'
import { markup, named, number, table, type Content, type Markup } from './markup.ts'

/** Values on the page that the report does not have. */
export interface Titles {
  /** Path of the configuration; `against` is that of the one given by --against. */
  readonly config: string
  readonly against?: string
  readonly version: string
  readonly madeAtMs: number
  /** What was left out, came late or differs from the log, a line each. */
  readonly remarks: readonly string[]
}

const section = (title: string, ...content: Content[]): Markup => {
  const id = `t-${title.toLowerCase().replaceAll(/[^a-z]+/g, '-')}`
  return markup`<section aria-labelledby="${id}"><h2 id="${id}">${title}</h2>
${content}</section>`
}

export function body(report: ReplayReport, titles: Titles): Markup {
  const { config, against, version, madeAtMs, remarks } = titles
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
${section('Read', readList(report, remarks))}
</main>`
}

/** Writes a change such as +25,309. */
const change = (before: number, after: number): string =>
  `${after > before ? '+' : ''}${count(after - before).replace('-', '\u2212')}`

/** Writes a time such as 2026-11-02 19:12:07Z. */
const moment = (at: string | null): Content =>
  at === null ? '–' : markup`<time datetime="${at}">${at.slice(0, 19).replace('T', ' ')}Z</time>`

/** Says in one sentence how many clients are refused more. */
function verdict({ clients, requests, before }: ReplayReport): Markup {
  const hit = clients.filter((client) => moreOf(client) > 0)
  const more = hit.reduce((sum, client) => sum + moreOf(client), 0)
  const less = clients.filter((client) => moreOf(client) < 0).length
  const what = before ? 'refused more' : 'refused'
  const all = plural(clients.length, 'client')
  const said =
    hit.length === 0
      ? `None of ${all} is ${what}.`
      : `${count(hit.length)} of ${all} ${hit.length === 1 ? 'is' : 'are'} ${what}: ${plural(more, 'request')} (${percentOf(more / requests)}).`
  const also = less > 0 ? ` ${plural(less, 'client')} refused less.` : ''
  return markup`<p class="says">${said}${also}</p>`
}

const OTHER = 'no such client or key, or refused by its route'

function outcomeTable({ requests, before, ...now }: ReplayReport): Markup {
  const row = (what: string, of: (outcome: Outcome) => number): Content[] =>
    before === undefined
      ? [what, of(now), requests === 0 ? '–' : percentOf(of(now) / requests)]
      : [what, of(before), of(now), change(of(before), of(now))]
  const rows = [
    row('admitted', ({ admitted }) => admitted),
    row('refused by minute', ({ refused }) => refused.minute),
    row('refused by day', ({ refused }) => refused.day),
    row('refused by ban', ({ refused }) => refused.ban),
    ...(before ? [row(OTHER, ({ other = 0 }) => other)] : []),
  ]
  const amounts = before ? ['Old', 'New', 'Change'] : ['Requests', 'Share']
  return table('Outcome', [`of ${plural(requests, 'request')}`, ...amounts.map(number)], rows)
}

const MOST_CLIENTS = 1_000

const refusedHeads = (isCompared: boolean) =>
  (isCompared ? ['Old', 'New', 'Change'] : ['Refused']).map(number)

function refusedCells({ before, ...now }: Outcome & { readonly before?: Outcome }): Content[] {
  const refused = refusedOf(now)
  if (before === undefined) return [refused]
  return [refusedOf(before), refused, change(refusedOf(before), refused)]
}

function plansTable({ plans, before }: ReplayReport): Markup {
  const heads = [
    'Plan',
    number('Clients'),
    number('Requests'),
    ...refusedHeads(before !== undefined),
  ]
  const rows = plans.map(({ plan, clients, requests, ...outcome }) => [
    named(plan),
    clients,
    requests,
    ...refusedCells(outcome),
  ])
  return table('By plan', heads, rows)
}

/** The clients with the most refusals, or with the largest increase, come first. */
function clientsTable({ clients, before, suggestions }: ReplayReport): Content {
  const heads = [
    'Client',
    'Plan',
    number('Requests'),
    ...refusedHeads(before !== undefined),
    ...['Minute', 'Day', 'Ban'].map(number),
    'First',
    'By',
    ...['Peak minute', 'Peak day'].map(number),
    ...(suggestions ? ['Suggest'] : []),
  ]
  const rows = clients.slice(0, MOST_CLIENTS).map((row): Content[] => {
    const { client, plan, requests, refused, peak, suggest } = row
    const first = firstOf(row)
    return [
      named(client),
      named(plan),
      requests,
      ...refusedCells(row),
      refused.minute,
      refused.day,
      refused.ban,
      moment(first?.at ?? null),
      first?.by ?? '–',
      peak.minute,
      peak.day,
      suggest === undefined ? '–' : named(suggest ?? 'no plan'),
    ]
  })
  const isCut = clients.length > MOST_CLIENTS
  return [
    isCut &&
      markup`<p class="muted">The first ${count(MOST_CLIENTS)} of ${count(clients.length)} clients; all of them: --json</p>`,
    table('Clients', heads, rows, 'clients'),
  ]
}

/** Renders the busiest minutes and days of each plan's clients, and limits under which a share of its requests is refused. */
function limitsTable({ share, until, plans }: Suggestions): Content {
  const counts = ['Clients', 'p50', 'p95', 'p99', 'Limit', `At ${percentOf(share)}`, 'Refused']
  const rows = plans
    .flatMap(windowsOf)
    .map(({ plan, window, clients, peaks, limit, atShare, refused }) => [
      named(plan),
      window,
      clients,
      peaks.p50,
      peaks.p95,
      peaks.p99,
      limit,
      atShare,
      percentOf(refused),
    ])
  return [
    markup`<p class="muted">p50, p95, p99: so many of the clients had no busier minute or day. At ${percentOf(share)}: the plan's limits, in their present proportion, under which at most this share of its requests would have been refused.</p>`,
    until !== null &&
      markup`<p>Of the log up to ${moment(until)}: what comes after it was too much to keep.</p>`,
    table('Limits that would fit', ['Plan', 'Window', ...counts.map(number)], rows),
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
