/** Decides which requests are traced. Without `telemetry` the SDK is not loaded. */
import type { Config } from '../../config/config.ts'
import { fieldOf } from '../rules/field-names.ts'
import { readTraceParent, readTraceState, SAMPLED } from '../rules/trace-context.ts'
import type { Exchange } from '../pipeline/exchange.ts'
import { Trace } from './trace.ts'
import type * as Sdk from './tracing-sdk.ts'

type Telemetry = NonNullable<Config['telemetry']>

let sdk: typeof Sdk | undefined

export class Tracing {
  readonly #parts: Sdk.SpanSinkParts
  #telemetry: Telemetry | undefined
  #sink: Sdk.SpanSink | undefined

  constructor(parts: Sdk.SpanSinkParts) {
    this.#parts = parts
  }

  /** Loads what a configuration with `telemetry` needs; must be awaited before use(). */
  async load(telemetry: Telemetry | undefined): Promise<void> {
    if (telemetry !== undefined) sdk ??= await import('./tracing-sdk.ts')
  }

  /** Applies from now on; requests under way are reported to the new collector. */
  use(telemetry: Telemetry | undefined): void {
    const before = this.#telemetry
    this.#telemetry = telemetry
    if (before?.otlp === telemetry?.otlp) return
    void this.#sink?.close()
    this.#sink = telemetry && sdk && new sdk.SpanSink(telemetry.otlp, this.#parts)
  }

  get isOn(): boolean {
    return this.#sink !== undefined
  }

  /**
   * The trace id of any client is kept, so that its own trace is found in our log. Only a trusted proxy may say whether its
   * request is recorded: else anybody could have everything traced. fields: flat; undefined where nothing of the request can be
   * trusted.
   */
  begin(fields: readonly string[] | undefined, isTrusted: boolean): Trace {
    const parent = fields && readTraceParent(fieldOf(fields, 'traceparent') ?? '')
    const state = parent && readTraceState(fieldOf(fields, 'tracestate') ?? '')
    const isDrawn =
      parent !== undefined && isTrusted
        ? (parent.flags & SAMPLED) !== 0
        : Math.random() < (this.#telemetry?.sample ?? 0)
    return new Trace(parent, state, isDrawn)
  }

  /** Reports a finished request. */
  ended(exchange: Exchange, trace: Trace, endedMs: number): void {
    if (trace.isSampled) this.#sink?.add(trace, trace.spans(exchange, endedMs))
  }

  async close(): Promise<void> {
    await this.#sink?.close()
  }
}
