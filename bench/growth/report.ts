/** The growth section of bench/README.md, made from the results. */
import {
  admittedShareTarget,
  storeCallTargets,
  type LimitFigures,
  type LimitPoint,
} from './limits-series.ts'
import { table } from '../markdown.ts'
import { grouped, mebibytes, percent, three } from './markdown.ts'
import type { Results, SeriesName, SeriesResult } from './results.ts'
import type { Point } from './series.ts'

export const stateTargetBytes = 25 * 2 ** 20
export const soakGrowthTarget = 0.05

export interface Target {
  readonly what: string
  readonly target: string
  readonly measured: string
  readonly met: boolean
}

/** Ends without a newline. */
export function report(results: Results): string {
  const { series, limits, soak } = results
  const sections = [
    limits &&
      section('Store calls as the limit grows', limits, limitsTable(limits.points), {
        plot: 'limits',
        text: `Four processes on one Redis, real minutes, requests at random moments to random processes, as many as the limit times the offered share.
"Admitted" is the share of what the limit allows: of all clients and minutes, and of the one client and minute that came off worst.`,
      }),
    ...(Object.keys(described) as SeriesName[]).map((name) => {
      const result = series[name]
      return (
        result &&
        section(
          described[name].title,
          result,
          described[name].table(result.points),
          described[name],
        )
      )
    }),
    soak &&
      section('Soak', soak, soakTable(soak), {
        plot: 'soak',
        text: 'Two gateways on one Redis under full load: clients that change from minute to minute, refusals, unknown keys, a backend that fails one request in ten, readers and writers that are slow or break off, connections that come and go. The second minute and the last begin with a collection, so that they can be compared.',
      }),
    targetTable(results),
  ]
  return sections.filter((text) => text !== undefined).join('\n\n')
}

interface Description {
  readonly title: string
  readonly plot: string
  readonly text: string
  readonly table: (points: readonly Point[]) => string
}

const described: Record<SeriesName, Description> = {
  clients: {
    title: 'Clients',
    plot: 'clients',
    text: `One gateway that knows so many clients, all of which send. "State" is what the heap, after a collection, has gained once each client has had one request,
"state under load" the same after the measurement; "at start" is the memory of the process before the first request, parsing of the configuration included.`,
    table: (points) =>
      pointTable(
        points,
        [
          'start s',
          'RSS MiB at start',
          'RSS MiB',
          'state MiB',
          'state under load MiB',
          'Redis state MiB',
        ],
        ({ figures, more }) => [
          three(more['startSeconds'] ?? NaN),
          mebibytes(figures.rssIdleBytes),
          mebibytes(figures.rssBytes),
          mebibytes(more['heapStateBytes'] ?? NaN),
          mebibytes(more['heapStateLoadedBytes'] ?? NaN),
          mebibytes(more['redisStateBytes'] ?? NaN),
        ],
      ),
  },
  processes: {
    title: 'Processes',
    plot: 'processes',
    text: 'Gateways on one Redis; 1,000 clients whose requests reach all of them alike. CPU is that of all gateways together.',
    table: (points) =>
      pointTable(
        points,
        ['RSS MiB each, idle', 'RSS MiB each', 'Redis bytes/client', 'network bytes/call'],
        ({ figures, more }) => [
          mebibytes(figures.rssIdleBytes),
          mebibytes(figures.rssBytes),
          three(more['redisStateBytesPerClient'] ?? NaN),
          three(more['redisNetworkBytesPerCall'] ?? NaN),
        ],
      ),
  },
  'hot-key': {
    title: 'One hot client',
    plot: 'hot-key',
    text: 'Four gateways on one Redis, 1,000 clients; the first of them sends none, half or all of the load beyond its even share.',
    table: (points) => pointTable(points, [], () => []),
  },
  bodies: {
    title: 'Bodies',
    plot: 'bodies',
    text: 'One gateway; 64 connections, with 10 MiB 16. RSS is the most the gateway had while it was measured.',
    table: (points) =>
      pointTable(points, ['MiB/s', 'gateway µs/MiB', 'RSS MiB'], ({ figures, more }) => [
        three(more['mebibytesPerSecond'] ?? NaN),
        three(more['gatewayMicrosecondsPerMebibyte'] ?? NaN),
        mebibytes(figures.rssBytes),
      ]),
  },
  connections: {
    title: 'Idle connections',
    plot: 'connections',
    text: `Keep-alive connections that have had one request answered and say nothing more, beside 64 busy ones; at the end of each row every one of them is asked again and answers. "CPU while idle"
is the share of one core while nobody sends.`,
    table: (points) =>
      pointTable(points, ['heap MiB', 'RSS MiB, idle', 'CPU while idle'], ({ more }) => [
        mebibytes(more['heapBytes'] ?? NaN),
        mebibytes(more['idleRssBytes'] ?? NaN),
        percent(more['idleCpuShare'] ?? NaN, 1),
      ]),
  },
}

function section(
  title: string,
  { date, machine, versions, method }: SeriesResult,
  body: string,
  { plot, text }: { readonly plot: string; readonly text: string },
): string {
  const origin = `${date}; ${machine}; ${versions}; ${method}.`
  return `### ${title}\n\n${text}\n\n![${title}](plots/${plot}.svg)\n\n${body}\n\n${origin}`
}

type Valid = Point & Required<Pick<Point, 'figures'>>

function pointTable(
  points: readonly Point[],
  titles: readonly string[],
  cells: (point: Valid) => readonly string[],
): string {
  const head = [
    '',
    'requests/s',
    'p50 ms',
    'p99 ms',
    'gateway CPU µs/request (min to max)',
    'Redis CPU µs/request',
    'store calls/request',
    ...titles,
  ]
  const lines = points.map((point) => {
    const { figures } = point
    if (figures === undefined) return [point.label, 'INVALID']
    const { median, min, max } = figures.gatewayMicroseconds
    return [
      point.label,
      grouped(figures.requestsPerSecond),
      figures.p50Ms.toFixed(2),
      figures.p99Ms.toFixed(2),
      `${median.toFixed(1)} (${min.toFixed(1)} to ${max.toFixed(1)})`,
      figures.redisMicroseconds.median.toFixed(1),
      figures.storeCalls.toFixed(3),
      ...cells({ ...point, figures }),
    ]
  })
  return [table(head, lines), ...invalidReasons(points)].join('\n\n')
}

function invalidReasons(
  points: readonly { readonly label: string; readonly invalid?: string }[],
): string[] {
  const reasons = points.flatMap(({ label, invalid }) =>
    invalid === undefined ? [] : [`- INVALID: ${label}: \`${invalid.replaceAll('`', "'")}\``],
  )
  return reasons.length === 0 ? [] : [reasons.join('\n')]
}

const limitLabel = ({ perMinute, offered }: LimitPoint): string =>
  `${grouped(perMinute)} a minute, offered ${offered * 100} %`

function limitsTable(points: readonly LimitPoint[]): string {
  const head = [
    'limit',
    'clients',
    'store calls/admitted request',
    'admitted over the limit',
    'admitted',
    'least admitted',
    'requests admitted',
    'p50 ms',
    'p99 ms',
  ]
  const lines = points.map((point) => {
    const { figures } = point
    if (figures === undefined) return [limitLabel(point), 'INVALID']
    return [
      limitLabel(point),
      String(point.clients),
      figures.storeCalls.toFixed(4),
      grouped(figures.over),
      percent(figures.admittedShare),
      percent(figures.leastAdmittedShare),
      grouped(figures.admitted),
      three(figures.p50Ms),
      three(figures.p99Ms),
    ]
  })
  const reasons = points.map((point) => ({ ...point, label: limitLabel(point) }))
  return [table(head, lines), ...invalidReasons(reasons)].join('\n\n')
}

function soakTable(soak: NonNullable<Results['soak']>): string {
  const last = soak.samples.at(-1)
  const answers = Object.entries(soak.answers).map(([what, count]) => `${grouped(count)} ${what}`)
  return [
    `- ${three(soak.minutes)} minutes, ${grouped(last?.requests ?? 0)} answers: ${answers.join(', ')}`,
    `- from the second minute to the last: memory of a gateway ${signed(soak.rssGrowth)}, live objects in its heap ${signed(soak.heapGrowth)}, memory of Redis ${signed(soak.redisRssGrowth)}`,
    ...(soak.invalid === undefined ? [] : [`- INVALID: \`${soak.invalid}\``]),
  ].join('\n')
}

const signed = (share: number): string => `${share > 0 ? '+' : ''}${percent(share, 1)}`

/** Every target that the results say something about. */
export function targets({ series, limits, soak }: Results): Target[] {
  const valid = (limits?.points ?? []).flatMap((point) =>
    point.figures ? [{ ...point, figures: point.figures }] : [],
  )
  const ofLimit = (
    point: LimitPoint & { readonly figures: LimitFigures },
    what: string,
    rest: Omit<Target, 'what'>,
  ): Target => ({ what: `${what}, ${limitLabel(point)}`, ...rest })
  const state = series.clients?.points.find(({ x }) => x === 10_000)?.more['heapStateLoadedBytes']
  return [
    ...valid.map((point) => {
      const target = storeCallTargets.get(point.perMinute) ?? NaN
      const { storeCalls } = point.figures
      return ofLimit(point, 'store calls per admitted request', {
        target: `at most ${target}`,
        measured: storeCalls.toFixed(4),
        met: storeCalls <= target,
      })
    }),
    ...valid.map((point) =>
      ofLimit(point, 'admitted over the limit', {
        target: '0',
        measured: String(point.figures.over),
        met: point.figures.over === 0,
      }),
    ),
    ...valid.map((point) =>
      ofLimit(point, 'admitted', {
        target: `at least ${percent(admittedShareTarget, 1)}`,
        measured: percent(point.figures.admittedShare),
        met: point.figures.admittedShare >= admittedShareTarget,
      }),
    ),
    ...(state === undefined
      ? []
      : [
          {
            what: "10,000 clients' state in a worker",
            target: `under ${mebibytes(stateTargetBytes)} MiB`,
            measured: `${mebibytes(state)} MiB`,
            met: state < stateTargetBytes,
          },
        ]),
    ...(soak === undefined
      ? []
      : [
          {
            what: 'growth of memory in the soak',
            target: `under ${percent(soakGrowthTarget, 0)}`,
            measured: signed(soak.rssGrowth),
            met: soak.rssGrowth < soakGrowthTarget,
          },
        ]),
  ]
}

function targetTable(results: Results): string | undefined {
  const all = targets(results)
  if (all.length === 0) return undefined
  const lines = all.map(({ what, target, measured, met }) => [
    what,
    target,
    measured,
    met ? 'met' : 'MISSED',
  ])
  return `### Targets\n\n${table(['target', 'wanted', 'measured', ''], lines)}`
}
