/** `tollgate top`: shows the busiest clients, live on a terminal; a pipe gets one line a second. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Top } from '../../admin/overview/operations.ts'
import type { Tick } from '../../insight/api/live.ts'
import { causes } from '../../insight/format.js'
import type { Overview } from '../../insight/live/overview.ts'
import type { Store } from '../../admin/system/operations.ts'
import { lookOf } from '../terminal/look.ts'
import { choice, type Declaration } from '../program.ts'
import type { Edge, Output } from '../edge.ts'
import { ask, askForStream, asking, gatewayOf, type AdminOf, type Asking } from './asking.ts'
import { topFrame, type TopState } from './top-frame.ts'

export const top: Declaration = (program, { once }) =>
  asking(program, 'top', 'the busiest clients of the last seconds, live; in a pipe a line a second')
    .addOption(choice('--by <order>', 'default: requests', Object.values(orders)))
    .action(once(() => topCommand))

type TopOptions = Asking & Partial<Pick<Top, 'by'>>

type TopOutput = Output & Pick<Edge, 'screen' | 'unread'>

const SILENT_AFTER_MS = 3_000
const RETRY_AFTER_MS = 2_000

export async function topCommand(edge: TopOutput, options: TopOptions): Promise<void> {
  const gateway = gatewayOf(edge, options)
  const by = options.by ?? 'requests'
  const { json = false } = options
  if (edge.screen !== undefined && !json) {
    // A missing gateway is reported before the terminal is taken over.
    const view = new LiveView(edge, gateway, {
      ...(await headOf(gateway, NEVER)),
      top: await topOf(gateway, by, NEVER),
    })
    if (edge.screen.takeOver(view)) return await view.run()
  }
  for await (const tick of ticks(gateway, edge.unread)) {
    const top = await topOf(gateway, by, NEVER)
    edge.print(json ? JSON.stringify({ tick, top }) : tabbed(tick, top))
  }
}

const NEVER = new AbortController().signal

/** A person who watches waits no longer for one answer, or for the end. */
const soon = (signal: AbortSignal) => ({
  signal: AbortSignal.any([signal, AbortSignal.timeout(SILENT_AFTER_MS)]),
})

const headOf = async (gateway: AdminOf, signal: AbortSignal) => ({
  overview: await ask<Overview>(gateway, '/api/overview', soon(signal)),
  store: await ask<Store>(gateway, '/api/store', soon(signal)),
})

const topOf = (gateway: AdminOf, by: Top['by'], signal: AbortSignal) =>
  ask<Top>(gateway, `/api/top?by=${by}&window=10s`, soon(signal))

/** Ends when the signal is aborted. */
async function* ticks(gateway: AdminOf, signal: AbortSignal): AsyncGenerator<Tick> {
  try {
    const call = { accept: 'text/event-stream', signal }
    const events = await askForStream(gateway, '/api/events?types=tick', call)
    yield* ticksIn(events.setEncoding('utf8'))
  } catch (error) {
    if (!signal.aborted) throw error
  }
}

/** Reads the seconds of a stream of events (text/event-stream, WHATWG HTML 9.2): each is one line of data. */
export async function* ticksIn(body: AsyncIterable<string>): AsyncGenerator<Tick> {
  let rest = ''
  for await (const text of body) {
    const lines = (rest + text).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines)
      if (line.startsWith('data:')) yield JSON.parse(line.slice('data:'.length)) as Tick
  }
}

/** The time, requests, refusals by each window, ban and other, p99 of gateway and backend, then the first client of the list. */
const tabbed = ({ at, requests, refused, ...tick }: Tick, { clients }: Top): string => {
  const known = [tick.gatewayMs.p99, tick.backendMs.p99, clients[0]?.client].map(
    (cell) => cell ?? '',
  )
  return [at, requests, ...causes.map((by) => refused[by]), ...known].join('\t')
}

class LiveView {
  readonly #edge: TopOutput
  readonly #gateway: AdminOf
  readonly #left = new AbortController()
  #state: TopState
  #by: Top['by']
  #latestAtMs = Date.now()

  constructor(
    edge: TopOutput,
    gateway: AdminOf,
    shown: Pick<TopState, 'overview' | 'store' | 'top'>,
  ) {
    this.#edge = edge
    this.#gateway = gateway
    this.#by = shown.top.by
    this.#state = { ...shown, tick: undefined, filter: '', typing: undefined, isPaused: false }
  }

  /** Runs until the view is left. */
  async run(): Promise<void> {
    const { signal } = this.#left
    const watch = setInterval(() => void this.#draw(), SILENT_AFTER_MS)
    try {
      await this.#draw()
      while (!signal.aborted) {
        // The view shows its end as missing data.
        await this.#follow(signal).catch(() => undefined)
        await sleep(RETRY_AFTER_MS, undefined, { signal }).catch(() => undefined)
      }
    } finally {
      clearInterval(watch)
      this.#edge.screen?.restore()
    }
  }

  async #follow(signal: AbortSignal): Promise<void> {
    let ticksSeen = 0
    for await (const tick of ticks(this.#gateway, signal)) {
      this.#latestAtMs = Date.now()
      if (this.#state.isPaused) continue
      // The head seldom changes, and costs the gateway most.
      const head = ticksSeen++ % 5 === 0 ? await headOf(this.#gateway, signal) : {}
      const top = await topOf(this.#gateway, this.#by, signal)
      this.#state = { ...this.#state, tick, ...head, top }
      await this.#draw()
    }
  }

  /** Takes keys, of which several may come at a time. */
  readonly key = (keys: string): void => {
    for (const key of keys.startsWith('\x1b') ? [keys] : keys) this.#press(key)
    void this.#draw()
  }

  #press(key: string): void {
    const { filter, typing, isPaused } = this.#state
    if (key === '\x03' || (key === 'q' && typing === undefined)) return this.gone()
    if (typing !== undefined) this.#state = { ...this.#state, ...typed(key, typing, filter) }
    else if (key === '/') this.#state = { ...this.#state, typing: filter }
    else if (key === ' ') this.#state = { ...this.#state, isPaused: !isPaused }
    // The list of the next second has that order.
    else this.#by = orders[key] ?? this.#by
  }

  readonly resized = (): void => void this.#draw()

  readonly gone = (): void => this.#left.abort()

  async #draw(): Promise<void> {
    const look = lookOf(this.#edge)
    const { screen } = this.#edge
    if (look === undefined || screen === undefined) return
    const isSilent = Date.now() - this.#latestAtMs > SILENT_AFTER_MS
    const silentSinceMs = isSilent ? this.#latestAtMs : undefined
    const lines = await topFrame({ ...this.#state, silentSinceMs }, screen.rows, look)
    if (!this.#left.signal.aborted) screen.draw(lines)
  }
}

const orders: Readonly<Record<string, Top['by']>> = { r: 'requests', f: 'refusals', l: 'latency' }

/** Handles a key while the filter is typed: Enter takes it, Escape leaves it as it was. */
function typed(key: string, typing: string, filter: string) {
  if (key === '\r' || key === '\n') return { filter: typing, typing: undefined }
  if (key === '\x1b') return { filter, typing: undefined }
  if (key === '\x7f' || key === '\b') return { typing: typing.slice(0, -1) }
  return { typing: /^[\x20-\x7e]$/.test(key) ? typing + key : typing }
}
