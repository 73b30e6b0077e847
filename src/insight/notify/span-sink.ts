/** Sends spans to an OpenTelemetry collector. Only this file knows the SDK; it is loaded where tracing is on. */
import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { pid } from 'node:process'
import {
  createTraceState,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace as spans,
  type Tracer,
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-proto'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { AlwaysOnSampler, BatchSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace'
import type { SpanExporter } from '@opentelemetry/sdk-trace'
import type { Log } from '../../core/record/log.ts'
import type { Metrics } from '../../core/record/metrics.ts'
import { text } from '../../core/record/safe-text.ts'
import type { Span, SpanSink, Trace } from '../../core/record/tracing.ts'
import { endedWithin } from '../../state/timers.ts'

interface SpanSinkParts {
  readonly version: string
  readonly log: Pick<Log, 'collectorLost' | 'collectorBack'>
  readonly metrics: Pick<Metrics, 'spans'>
}

/** Spans that wait at most; further ones are dropped, as a collector that is away must not fill the memory. */
const QUEUED_AT_MOST = 2_048
const BATCH_SPANS = 512
const DELAY_MS = 1_000
const TIMEOUT_MS = 4_000
const FLUSH_MS = 1_000

export class CollectorSink implements SpanSink {
  readonly #collector: string
  readonly #parts: SpanSinkParts
  readonly #provider: TracerProvider
  readonly #tracer: Tracer
  /** Number of spans that wait in the processor. */
  #queued = 0
  /** Spans lost since the collector was; undefined: it is there. Written by #exported. */
  #lost: number | undefined
  /** The ids of the span being made. */
  #ids = { traceId: '', spanId: '' }

  /** collector: its URL. */
  constructor(collector: string, parts: SpanSinkParts) {
    this.#collector = collector
    this.#parts = parts
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({
        'service.name': 'tollgate',
        'service.version': parts.version,
        'service.instance.id': randomUUID(),
        'host.name': hostname(),
        'process.pid': pid,
      }),
      sampler: new AlwaysOnSampler(),
      idGenerator: {
        generateTraceId: () => this.#ids.traceId,
        generateSpanId: () => this.#ids.spanId,
      },
      spanProcessors: [
        new BatchSpanProcessor({
          exporter: this.#counted(
            new OTLPTraceExporter({ url: collector, timeoutMillis: TIMEOUT_MS }),
          ),
          maxQueueSize: QUEUED_AT_MOST,
          maxExportBatchSize: BATCH_SPANS,
          scheduledDelayMillis: DELAY_MS,
          // The exporter's own time-out comes first and names the cause.
          exportTimeoutMillis: 2 * TIMEOUT_MS,
        }),
      ],
    })
    this.#tracer = this.#provider.getTracer('tollgate')
  }

  /** all: the spans of a finished request; the first is the parent of the others. */
  add(trace: Trace, all: readonly Span[]): void {
    // The time origin by the present wall clock, which may have been set since the process began.
    const epochMs = Date.now() - performance.now()
    for (const span of all) {
      const { name, spanId, startedMs, endedMs = startedMs, attributes, fault } = span
      const isOwn = spanId === trace.spanId
      if (this.#queued >= QUEUED_AT_MOST) {
        this.#parts.metrics.spans('dropped')
        continue
      }
      this.#queued++
      this.#ids = { traceId: trace.traceId, spanId }
      const options = {
        kind: isOwn ? SpanKind.SERVER : SpanKind.CLIENT,
        startTime: epochMs + startedMs,
        attributes,
      }
      const made = this.#tracer.startSpan(name, options, contextOf(trace, isOwn))
      if (fault !== undefined) made.setStatus({ code: SpanStatusCode.ERROR, message: text(fault) })
      made.end(epochMs + endedMs)
    }
  }

  /** Sends the spans that wait; resolves within about a second even if the collector does not answer. */
  async close(): Promise<void> {
    await endedWithin(this.#provider.shutdown(), FLUSH_MS)
  }

  #counted(exporter: SpanExporter): SpanExporter {
    return {
      export: (batch, done) => {
        this.#queued -= batch.length
        exporter.export(batch, (result) => {
          const { error } = result
          // The message alone, cut short: a collector may answer anything.
          const cause = error && text(error.message || error.name)
          this.#exported(batch.length, cause)
          done(result)
        })
      },
      shutdown: () => exporter.shutdown(),
    }
  }

  /** cause: why the spans are lost; undefined: the collector has them. */
  #exported(count: number, cause: string | undefined): void {
    const { log, metrics } = this.#parts
    metrics.spans(cause === undefined ? 'exported' : 'dropped', count)
    const [collector, lost] = [this.#collector, this.#lost]
    this.#lost = cause === undefined ? undefined : (lost ?? 0) + count
    if (cause !== undefined && lost === undefined) log.collectorLost({ collector, cause })
    if (cause === undefined && lost !== undefined) log.collectorBack({ collector, dropped: lost })
  }
}

/** isRemote: the span's parent is the caller's, not the request's own. */
function contextOf(trace: Trace, isRemote: boolean): typeof ROOT_CONTEXT {
  const parent = isRemote ? trace.parent : trace
  if (parent === undefined) return ROOT_CONTEXT
  const { traceId, spanId, flags: traceFlags } = parent
  const traceState = createTraceState(trace.state ?? '')
  return spans.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags, traceState, isRemote })
}
