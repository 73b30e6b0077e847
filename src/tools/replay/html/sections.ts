/** Renders the overall outcome of a replay, its differences from the log, and what was read. */
import { count, plural } from '../../../insight/format.js'
import type { Cause, Outcome, ReplayReport } from '../report.ts'
import { percentOf } from '../suggest.ts'
import { moreOf } from '../totals.ts'
import { markup, named, numbers, table, type Column, type Content, type Markup } from './markup.ts'

/** Writes a change such as +25,309. */
export const change = (before: number, after: number): string =>
  `${after > before ? '+' : ''}${count(after - before).replace('-', '\u2212')}`

/** Writes a time such as 2026-11-02 19:12:07Z. */
export const moment = (at: string | null): Content =>
  at === null ? '–' : markup`<time datetime="${at}">${at.slice(0, 19).replace('T', ' ')}Z</time>`

/** Says in one sentence how many clients are refused more. */
export function verdict({ clients, requests, before }: ReplayReport): Markup {
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

export function outcomeTable({ requests, before, ...now }: ReplayReport): Markup {
  const rows = [
    { what: 'admitted', of: ({ admitted }: Outcome) => admitted },
    { what: 'refused by minute', of: ({ refused }: Outcome) => refused.minute },
    { what: 'refused by day', of: ({ refused }: Outcome) => refused.day },
    { what: 'refused by ban', of: ({ refused }: Outcome) => refused.ban },
    ...(before ? [{ what: OTHER, of: ({ other = 0 }: Outcome) => other }] : []),
  ]
  const amount = (head: string, from: Outcome) =>
    numbers<(typeof rows)[number]>(head, ({ of }) => of(from))
  const columns: Column<(typeof rows)[number]>[] = [
    { head: `of ${plural(requests, 'request')}`, kind: 'title', cell: ({ what }) => what },
    ...(before ? [amount('Old', before)] : []),
    amount(before ? 'New' : 'Requests', now),
    before
      ? { head: 'Change', isNumber: true, cell: ({ of }) => change(of(before), of(now)) }
      : {
          head: 'Share',
          isNumber: true,
          cell: ({ of }) => (requests === 0 ? '–' : percentOf(of(now) / requests)),
        },
  ]
  return table('Outcome', columns, rows)
}

const causes: Readonly<Record<Cause, string>> = {
  limits:
    'another limit counted: of another revision, without the store, set back by an operator, or what other workers and gateways held of it',
  strikes: 'a strike or ban of another worker, gateway or operator, known here later or not at all',
  missing: 'the log begins or has a hole within the window, or a request came late: --window 10m',
  unexplained: 'no cause was found',
}

export function logTable({ same, differs, examples }: NonNullable<ReplayReport['log']>): Content {
  const rows = Object.entries(differs).filter(([, amount]) => amount > 0) as [Cause, number][]
  const all = rows.reduce((sum, [, amount]) => sum + amount, 0)
  const exampleOf = (cause: Cause): Content => {
    const example = examples.find((each) => each.cause === cause)
    if (example === undefined) return '–'
    const { at, client, logged, replayed } = example
    return [moment(at), ' ', named(client), `: logged ${logged}, replayed ${replayed}`]
  }
  const columns: readonly Column<[Cause, number]>[] = [
    { head: 'Cause', kind: 'title', cell: ([cause]) => cause },
    numbers('Requests', ([, amount]) => amount),
    { head: 'Meaning', kind: 'wide', cell: ([cause]) => causes[cause] },
    { head: 'First', kind: 'wide', cell: ([cause]) => exampleOf(cause) },
  ]
  return [
    markup`<p>${plural(all, 'request')} of ${count(same + all)} that the log has an answer to; the others are answered the same.</p>`,
    all > 0 && table('Differs from the log', columns, rows),
  ]
}

const MOST_NAMES = 100

const names = (all: readonly string[]): Content =>
  all.length === 0
    ? 'none'
    : [
        all.slice(0, MOST_NAMES).map((name, at) => [at > 0 && ', ', named(name)]),
        all.length > MOST_NAMES && `, and ${count(all.length - MOST_NAMES)} more`,
      ]

export function readList({ read, unknownClients, ...report }: ReplayReport): Markup {
  const { firstUnreadable: first } = read
  const where = first !== null && [
    ' (first: ',
    named(first.file),
    ` line ${first.line}, `,
    named(first.why),
    ')',
  ]
  const unknown = unknownClients.requests > 0 && [': ', names(unknownClients.names)]
  const rows: readonly (readonly [string, Content])[] = [
    ['Files', names(read.files)],
    ['Lines', count(read.lines)],
    ['Time', [moment(report.from), ' to ', moment(report.to)]],
    ['Unreadable', [count(read.unreadable), where]],
    ['No requests', `${count(read.otherLines)} (starts, reloads)`],
    [
      'Not judged',
      `${count(report.notJudged)} (refused before bans and quota, of nobody, or 401 or 403 of another server; its other requests count as admitted ones)`,
    ],
    ['Of unknown clients', [count(unknownClients.requests), unknown]],
    ['Late', `${count(read.late)} (out of order by more than the window)`],
    ...(read.notesDropped > 0 ? [['Events not kept', count(read.notesDropped)] as const] : []),
    ['Cut off', names(read.cutOff)],
    ['Revision', report.revision],
    ['Revisions in the log', names(read.revisions)],
  ]
  return markup`<dl>${rows.map(([head, cell]) => markup`<dt>${head}</dt><dd>${cell}</dd>\n`)}</dl>`
}
