/** Which requests are traced. The SDK is loaded where any is: without `telemetry` nothing of it is in the process. */
import type { Config } from '../../config/config.ts'
import { readTraceParent, readTraceState, SAMPLED } from '../rules/trace-context.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'
import { Trace, type TracedRequest } from './trace.ts'
import type * as Sdk from './tracing-sdk.ts'

type Telemetry = NonNullable<Config['telemetry']>

/** Header fields as Node.js has them: several of a name are one, joined by commas. */
interface TraceFields {
  readonly traceparent?: string | string[] | undefined
  readonly tracestate?: string | string[] | undefined
}

interface TracingParts {
  /** Of the gateway. */
  readonly version: string
  readonly log: Pick<Log, 'collectorLost' | 'collectorBack'>
  readonly metrics: Pick<Metrics, 'spans'>
}

let sdk: typeof Sdk | undefined

export class Tracing {
  readonly #parts: TracingParts
  #telemetry: Telemetry | undefined
  #sink: Sdk.SpanSink | undefined

  constructor(parts: TracingParts) {
    this.#parts = parts
  }

  /** To be awaited before use(): loads what a configuration with `telemetry` needs. */
  async load(telemetry: Telemetry | undefined): Promise<void> {
    if (telemetry !== undefined) sdk ??= await import('./tracing-sdk.ts')
  }

  /** From here on. What is under way is told to the new collector. */
  use(telemetry: Telemetry | undefined): void {
    const before = this.#telemetry
    this.#telemetry = telemetry
    if (before?.otlp === telemetry?.otlp) return
    void this.#sink?.close()
    this.#sink = telemetry && sdk && new sdk.SpanSink(sinkOptions(telemetry.otlp, this.#parts))
  }

  get isOn(): boolean {
    return this.#sink !== undefined
  }

  /**
   * The trace id of any client is kept, so that its own trace is found in our log. Whether its request is recorded only a
   * trusted proxy may say: else anybody could have everything traced. fields: undefined where nothing of the request can be believed.
   */
  begin(fields: TraceFields | undefined, isTrusted: boolean): Trace {
    const parent = readTraceParent(String(fields?.traceparent))
    const state = parent && readTraceState(String(fields?.tracestate ?? ''))
    const isDrawn =
      parent !== undefined && isTrusted
        ? (parent.flags & SAMPLED) !== 0
        : Math.random() < (this.#telemetry?.sample ?? 0)
    return new Trace(parent, state, isDrawn)
  }

  /** It is over. */
  ended(exchange: TracedRequest, trace: Trace, endedMs: number): void {
    if (trace.isSampled) this.#sink?.add(trace, trace.spans(exchange, endedMs))
  }

  async close(): Promise<void> {
    await this.#sink?.close()
  }
}

function sinkOptions(collector: string, parts: TracingParts): Sdk.SpanSinkOptions {
  const { version, log, metrics } = parts
  /** Spans since the collector was lost. */
  let lost: number | undefined
  return {
    url: collector,
    version,
    onFull: () => metrics.spans('dropped', 1),
    onExport: (count, cause) => {
      metrics.spans(cause === undefined ? 'exported' : 'dropped', count)
      if (cause !== undefined) {
        if (lost === undefined) log.collectorLost({ collector, cause })
        lost = (lost ?? 0) + count
      } else if (lost !== undefined) {
        log.collectorBack({ collector, dropped: lost })
        lost = undefined
      }
    },
  }
}
