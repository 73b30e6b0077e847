/** What a run came to, in words; and whether those felt anything who should not. */
import { faultKinds, type ChaosRequest, type Fault, type FaultKind, type Run } from './events.ts'
import { groupBy, nameOf, overlaps, type Difference } from './ledger.ts'

export interface Latency {
  /** 'calm', or the fault while which these were under way. */
  readonly during: 'calm' | FaultKind
  readonly requests: number
  readonly p50Ms: number
  readonly p99Ms: number
}

/** Slower than this is noticed, whatever the calm time was; the rest is for a machine that is busy. */
const NOTICED_MS = 500
const SLOWER_AT_MOST = 10

const quantile = (sorted: readonly number[], share: number): number =>
  sorted[Math.floor((sorted.length - 1) * share)] ?? 0

/** Of bystanders' calls that no failed part had anything to do with: in calm, and while each kind of fault was on. */
export function latencies(
  { clients, requests, sightings, faults }: Run,
  calmUntilMs: number,
): Latency[] {
  const bystanders = new Set(clients.filter((client) => client.isBystander).map(({ id }) => id))
  const seen = groupBy(sightings, ({ number }) => number)
  const own = requests.filter(
    (request): request is ChaosRequest & { endMs: number } =>
      bystanders.has(request.client) && request.endMs !== undefined,
  )
  const touched = (request: ChaosRequest, { part }: Fault): boolean =>
    part !== '' &&
    (request.gateway === part ||
      seen.get(request.number)?.some(({ backend }) => backend === part) === true)
  const at = (during: Latency['during'], chosen: typeof own): Latency => {
    const tookMs = chosen.map(({ sentMs, endMs }) => endMs - sentMs).sort((a, b) => a - b)
    return {
      during,
      requests: tookMs.length,
      p50Ms: quantile(tookMs, 0.5),
      p99Ms: quantile(tookMs, 0.99),
    }
  }
  const kinds = Object.values(faultKinds).flat()
  return [
    at(
      'calm',
      own.filter(({ endMs }) => endMs < calmUntilMs),
    ),
    ...kinds.map((kind) => {
      const ofKind = faults.filter((fault) => fault.kind === kind)
      return at(
        kind,
        own.filter((request) => {
          // With others at the same time, what they touch is theirs.
          const during = faults.filter((fault) => overlaps(fault, request.sentMs, request.endMs))
          return (
            ofKind.some(
              (fault) => request.sentMs >= fault.fromMs && request.sentMs <= fault.untilMs,
            ) &&
            !during.some(
              (fault) => touched(request, fault) || (isOfStore(fault) && fault.kind !== kind),
            )
          )
        }),
      )
    }),
  ]
}
const isOfStore = ({ kind }: Fault): boolean => kind.startsWith('store')

/** While the store is away each is decided within 250 ms, or refused: that is tested elsewhere. */
export function felt(found: readonly Latency[]): string[] {
  const calm = found.find(({ during }) => during === 'calm')?.p99Ms ?? 0
  const atMost = Math.max(NOTICED_MS, SLOWER_AT_MOST * calm)
  return found
    .filter(({ during, p99Ms }) => !during.startsWith('store') && p99Ms > atMost)
    .map(({ during, p99Ms }) => `bystanders' p99 ${p99Ms} ms while: ${during} (calm: ${calm} ms)`)
}

/** What a run must have shown to have shown anything. */
export function notShown({ clients, requests, faults }: Run): string[] {
  const played = new Set(faults.map(({ kind }) => kind))
  const isRefused = ({ outcomes: [outcome] }: ChaosRequest): boolean =>
    nameOf(outcome) === '429 rate_limit_exceeded'
  const isAdmitted = ({ outcomes: [outcome] }: ChaosRequest): boolean =>
    ['101', '200'].includes(nameOf(outcome))
  return [
    ...Object.values(faultKinds)
      .flat()
      .filter((kind) => !played.has(kind))
      .map((kind) => `never: ${kind}`),
    ...clients.flatMap(({ id, isBystander }) => {
      const own = requests.filter(({ client }) => client === id)
      return [
        !own.some(isAdmitted) && `${id} was never let through`,
        // These come near no limit, but may be refused by others.
        !['crowd', 'talker'].includes(id) &&
          own.some(isRefused) === isBystander &&
          `${id} was ${isBystander ? '' : 'never '}refused by its limit`,
      ].filter((fault) => fault !== false)
    }),
  ]
}

const seconds = (ms: number): string => (ms / 1_000).toFixed(1)
const table = (rows: readonly (readonly (string | number)[])[]): string => {
  const [head = []] = rows
  return [head, head.map(() => '---'), ...rows.slice(1)]
    .map((row) => `| ${row.join(' | ')} |`)
    .join('\n')
}

export function describeFaults(faults: readonly Fault[], startMs: number): string {
  return table([
    ['fault', 'part', 'from, s', 'for, s'],
    ...faults.map(({ kind, part, fromMs, untilMs }) => [
      kind,
      part,
      seconds(fromMs - startMs),
      seconds(untilMs - fromMs),
    ]),
  ])
}

export function describeOutcomes({ clients, requests }: Run): string {
  const names = [...groupBy(requests, ({ outcomes: [outcome] }) => nameOf(outcome)).keys()].sort()
  return table([
    ['client', 'sent', ...names],
    ...clients.map(({ id }) => {
      const own = requests.filter(({ client }) => client === id)
      const by = groupBy(own, ({ outcomes: [outcome] }) => nameOf(outcome))
      return [id, own.length, ...names.map((name) => by.get(name)?.length ?? 0)]
    }),
  ])
}

export const describeLatencies = (found: readonly Latency[]): string =>
  table([
    ['bystanders while', 'requests', 'p50, ms', 'p99, ms'],
    ...found.map(({ during, requests, p50Ms, p99Ms }) => [during, requests, p50Ms, p99Ms]),
  ])

const SHOWN = 40
/** Each with what client, backends and log have of its requests. */
export function describeDifferences(
  differences: readonly Difference[],
  { requests, sightings }: Run,
  { startMs, logLines }: { startMs: number; logLines: readonly string[] },
): string {
  const lines = differences.slice(0, SHOWN).flatMap(({ rule, client, detail, numbers }) => [
    `- ${rule}: ${client}: ${detail}`,
    ...numbers.slice(0, 3).flatMap((number) => {
      const request = requests[number]
      return [
        request &&
          `    client: ${JSON.stringify({ ...request, at: seconds(request.sentMs - startMs) })}`,
        ...sightings
          .filter((one) => one.number === number)
          .map((one) => `    backend: ${JSON.stringify(one)}`),
        ...logOf(number, logLines).map((line) => `    log: ${line}`),
      ].filter((line) => line !== undefined)
    }),
  ])
  if (differences.length > SHOWN) lines.push(`and ${differences.length - SHOWN} more`)
  return lines.join('\n')
}

/** Access lines of this request, and what else was said of its id. */
function logOf(number: number, logLines: readonly string[]): string[] {
  const access = logLines.filter((line) => line.includes(`"/v1/chaos/${number}"`))
  const ids = access.flatMap((line) => /"id":"[^"]+"/.exec(line) ?? [])
  return logLines.filter((line) => access.includes(line) || ids.some((id) => line.includes(id)))
}
