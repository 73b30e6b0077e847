/** The pictures in bench/plots, made from the results. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { storeCallTargets } from './limits-series.ts'
import { grouped, three } from './markdown.ts'
import type { Results, SoakSample } from './results.ts'
import type { Point } from './series.ts'
import { chart, type Axis, type Line, type Panel } from './svg.ts'

const directory = join(import.meta.dirname, '../plots')

type Valid = Point & Required<Pick<Point, 'figures'>>

/** Writes the picture of every series there are results for; returns their names. */
export function writePlots(results: Results): string[] {
  mkdirSync(directory, { recursive: true })
  const written: string[] = []
  const write = (name: string, panels: readonly Panel[], description: string): void => {
    if (panels.every(({ lines }) => lines.every(({ points }) => points.length === 0))) return
    writeFileSync(join(directory, `${name}.svg`), chart(panels, description))
    written.push(name)
  }
  const { series, limits, soak } = results
  const valid = (name: keyof typeof series): Valid[] =>
    (series[name]?.points ?? []).flatMap((point) =>
      point.figures ? [{ ...point, figures: point.figures }] : [],
    )
  if (limits)
    write(
      'limits',
      [limitsPanel(limits.points)],
      'Store calls per admitted request fall as the limit rises.',
    )
  const clients = valid('clients')
  if (clients.length > 0)
    write(
      'clients',
      [cpuPanel('CPU per request, one gateway', clientsAxis, clients), statePanel(clients)],
      'CPU per request and memory of the state against the number of clients.',
    )
  const processes = valid('processes')
  if (processes.length > 0)
    write(
      'processes',
      [
        cpuPanel('CPU per request, gateways on one Redis', processesAxis, processes),
        callsPanel('Store calls per request, gateways on one Redis', processesAxis, processes),
      ],
      'CPU per request of all gateways and of Redis, and store calls per request, against the number of gateway processes.',
    )
  const hot = valid('hot-key')
  if (hot.length > 0)
    write(
      'hot-key',
      [
        cpuPanel('CPU per request, four gateways on one Redis', hotAxis, hot),
        callsPanel('Store calls per request', hotAxis, hot),
      ],
      'CPU per request and store calls per request against the share of the load that one client sends.',
    )
  const bodies = valid('bodies')
  if (bodies.length > 0)
    write(
      'bodies',
      bodiesPanels(bodies),
      'CPU per request and memory of one gateway against the size of the body.',
    )
  const connections = valid('connections')
  if (connections.length > 0)
    write(
      'connections',
      [
        memoryOfConnections(connections),
        cpuPanel('CPU per request beside idle connections', connectionsAxis, connections),
      ],
      'Memory of one gateway, and CPU per request, against the number of idle connections.',
    )
  if (soak)
    write('soak', soakPanels(soak.samples), 'Memory and event loop lag over the time of the soak.')
  return written
}

const clientsAxis: Axis = { title: 'clients', scale: 'log', format: grouped }
const processesAxis: Axis = { title: 'gateway processes', scale: 'linear', ticks: [0, 1, 4, 8] }
const hotAxis: Axis = {
  title: 'share of the requests that one client of 1,000 sends',
  scale: 'linear',
  ticks: [0, 0.25, 0.5, 0.75, 1],
  format: (share) => `${share * 100} %`,
}
const connectionsAxis: Axis = { title: 'idle connections', scale: 'linear', format: grouped }

function cpuPanel(title: string, x: Axis, points: readonly Valid[]): Panel {
  return {
    title,
    x,
    y: { title: 'CPU, µs per request', scale: 'linear' },
    lines: [
      line('gateway', 0, points, ({ figures }) => figures.gatewayMicroseconds.median),
      line('Redis', 1, points, ({ figures }) => figures.redisMicroseconds.median),
    ],
  }
}

function callsPanel(title: string, x: Axis, points: readonly Valid[]): Panel {
  return {
    title,
    x,
    y: { title: 'store calls per request', scale: 'linear', format: three },
    lines: [line('store calls', 2, points, ({ figures }) => figures.storeCalls)],
  }
}

const MiB = 2 ** 20

function statePanel(points: readonly Valid[]): Panel {
  // Ten clients' state is lost in the noise of a heap.
  const some = points.filter(({ x }) => x >= 1000)
  return {
    title: 'Memory of the state of so many clients',
    x: clientsAxis,
    y: { title: 'MiB', scale: 'log', format: three },
    lines: [
      line('gateway', 0, some, ({ more }) => (more['heapStateLoadedBytes'] ?? NaN) / MiB),
      line('Redis', 1, some, ({ more }) => (more['redisStateBytes'] ?? NaN) / MiB),
    ],
  }
}

function bodiesPanels(points: readonly Valid[]): Panel[] {
  const x: Axis = {
    title: 'bytes of the body',
    scale: 'log',
    ticks: [1024, 10_240, 102_400, 1_048_576, 10_485_760],
    format: (bytes) => (bytes < MiB ? `${bytes / 1024} KiB` : `${bytes / MiB} MiB`),
  }
  const both = (value: (point: Valid) => number): Line[] =>
    ['download', 'upload'].map((direction, colour) =>
      line(
        direction,
        colour,
        points.filter(({ label }) => label.startsWith(direction)),
        value,
      ),
    )
  return [
    {
      title: 'CPU per request, one gateway',
      x,
      y: { title: 'CPU, µs per request', scale: 'log', format: three },
      lines: both(({ figures }) => figures.gatewayMicroseconds.median),
    },
    {
      title: 'Memory of the gateway under this load',
      x,
      y: { title: 'RSS, MiB', scale: 'linear' },
      lines: both(({ figures }) => figures.rssBytes / MiB),
    },
  ]
}

function memoryOfConnections(points: readonly Valid[]): Panel {
  return {
    title: 'Memory of one gateway with idle connections',
    x: connectionsAxis,
    y: { title: 'MiB', scale: 'linear' },
    lines: [
      line('RSS', 0, points, ({ more }) => (more['idleRssBytes'] ?? NaN) / MiB),
      line('heap, buffers included', 2, points, ({ more }) => (more['heapBytes'] ?? NaN) / MiB),
    ],
  }
}

function limitsPanel(points: NonNullable<Results['limits']>['points']): Panel {
  const at = (offered: number): (readonly [number, number])[] =>
    points.flatMap((point) =>
      point.offered === offered && point.figures && point.figures.storeCalls > 0
        ? [[point.perMinute, point.figures.storeCalls] as const]
        : [],
    )
  return {
    title: 'Store calls as the limit grows, four processes',
    x: {
      title: 'limit, requests per minute',
      scale: 'log',
      ticks: [300, 1000, 10_000, 30_000],
      format: grouped,
    },
    y: { title: 'store calls per admitted request', scale: 'log', format: three },
    lines: [
      { label: 'offered 80 % of limit', colour: 0, points: at(0.8) },
      { label: 'offered 200 % of limit', colour: 1, points: at(2) },
      { label: 'target, at most', colour: 2, points: [...storeCallTargets], dashed: true },
    ],
  }
}

function soakPanels(samples: readonly SoakSample[]): Panel[] {
  const x: Axis = { title: 'minutes', scale: 'linear' }
  const over = (label: string, colour: number, value: (sample: SoakSample) => number): Line => ({
    label,
    colour,
    plain: true,
    points: samples.map((sample) => [sample.seconds / 60, value(sample)]),
  })
  return [
    {
      title: 'Memory over time',
      x,
      y: { title: 'MiB', scale: 'linear' },
      lines: [
        over('gateway, RSS', 0, ({ gatewayRssBytes }) => gatewayRssBytes / MiB),
        over('gateway, heap', 2, ({ gatewayHeapBytes }) => gatewayHeapBytes / MiB),
        over('Redis, RSS', 1, ({ redisRssBytes }) => redisRssBytes / MiB),
      ],
    },
    {
      title: 'Event loop lag over time',
      x,
      y: { title: 'ms, 99th percentile of a 20 ms timer', scale: 'linear' },
      lines: [over('gateway', 0, ({ loopLagP99Ms }) => loopLagP99Ms)],
    },
    {
      title: 'Handles over time: sockets, timers and the like',
      x,
      y: { title: 'handles', scale: 'linear' },
      lines: [over('gateway', 0, ({ gatewayHandles }) => gatewayHandles)],
    },
  ]
}

function line(
  label: string,
  colour: number,
  points: readonly Valid[],
  value: (point: Valid) => number,
): Line {
  return {
    label,
    colour,
    points: points.flatMap((point) => {
      const y = value(point)
      return Number.isFinite(y) ? [[point.x, y] as const] : []
    }),
  }
}
