/** Whether those felt anything who had nothing to do with it. */
import { faultKinds, type ChaosRequest, type Fault, type FaultKind, type Run } from './events.ts'
import { overlaps } from './ledger.ts'

export interface Latency {
  /** 'calm', or the fault while which these were under way. */
  readonly during: 'calm' | FaultKind
  readonly requests: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Of calls that go past the gateways, to a backend that nobody else calls: what the machine itself takes. */
  readonly machineP99Ms: number
}

/** Slower than this is noticed, whatever the calm time was. */
const NOTICED_MS = 500
const SLOWER_AT_MOST = 10
/** A request goes by way of a gateway to a backend and back. */
const PROCESSES = 2

interface Span {
  readonly sentMs: number
  readonly endMs: number
}

/** Of bystanders' calls that no failed part had anything to do with: in calm, and while each kind of fault was on. */
export function latencies(run: Run, calmUntilMs: number): Latency[] {
  const { clients, faults, past } = run
  const bystanders = new Set(clients.filter((client) => client.isBystander).map(({ id }) => id))
  const own = run.requests.filter(
    (request): request is ChaosRequest & Span =>
      bystanders.has(request.client) && request.endMs !== undefined,
  )
  const isTouched = touchedIn(run)
  const isCalm = ({ endMs }: Span): boolean => endMs < calmUntilMs
  return [
    measure('calm', own.filter(isCalm), past.filter(isCalm)),
    ...Object.values(faultKinds)
      .flat()
      .map((kind) => {
        const isOfKind = ({ sentMs }: Span): boolean =>
          faults.some(
            (fault) => fault.kind === kind && sentMs >= fault.fromMs && sentMs <= fault.untilMs,
          )
        const untouched = own.filter((request) => isOfKind(request) && !isTouched(request, kind))
        return measure(kind, untouched, past.filter(isOfKind))
      }),
  ]
}

function measure(during: Latency['during'], own: readonly Span[], past: readonly Span[]): Latency {
  const sorted = (spans: readonly Span[]): number[] =>
    spans.map(({ sentMs, endMs }) => endMs - sentMs).sort((a, b) => a - b)
  const tookMs = sorted(own)
  return {
    during,
    requests: tookMs.length,
    p50Ms: quantile(tookMs, 0.5),
    p99Ms: quantile(tookMs, 0.99),
    machineP99Ms: quantile(sorted(past), 0.99),
  }
}

const quantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.floor((sorted.length - 1) * share)] ?? 0

/** Whether a request went by way of a part that had failed, or needed a store that was away because of another fault. */
function touchedIn({ sightings, faults }: Run) {
  const seen = Map.groupBy(sightings, ({ number }) => number)
  return ({ number, gateway, sentMs, endMs }: ChaosRequest & Span, kind: FaultKind): boolean =>
    faults.some(
      (fault: Fault) =>
        overlaps(fault, sentMs, endMs) &&
        (fault.kind.startsWith('store')
          ? fault.kind !== kind
          : fault.part === gateway ||
            seen.get(number)?.some(({ backend }) => backend === fault.part) === true),
    )
}

/** While the store is away each is decided within 250 ms, or refused: that is tested elsewhere. */
export function felt(found: readonly Latency[]): string[] {
  const calmMs = found.find(({ during }) => during === 'calm')?.p99Ms ?? 0
  const atMostMs = Math.max(NOTICED_MS, SLOWER_AT_MOST * calmMs)
  return found
    .filter(({ during }) => !during.startsWith('store'))
    .filter(({ p99Ms, machineP99Ms }) => p99Ms > atMostMs + PROCESSES * machineP99Ms)
    .map(({ during, p99Ms }) => `bystanders' p99 ${p99Ms} ms while: ${during} (calm: ${calmMs} ms)`)
}
