/** What a run came to, in words. */
import { faultKinds, type ChaosRequest, type Fault, type Run } from './events.ts'
import { nameOf, type Difference } from './ledger.ts'

/** What a run must have shown to have shown anything. isShort: on a busy machine not everybody comes to his limit in it. */
export function notShown({ clients, requests, faults }: Run, isShort = false): string[] {
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
        // Of a crowd that comes while the store is away.
        id !== 'crowd' && !own.some(isAdmitted) && `${id} was never let through`,
        // These come near no limit, but may be refused by others.
        !['crowd', 'talker'].includes(id) &&
          (isBystander || !isShort) &&
          own.some(isRefused) === isBystander &&
          `${id} was ${isBystander ? '' : 'never '}refused by its limit`,
      ].filter((fault) => fault !== false)
    }),
  ]
}

const seconds = (ms: number): string => (ms / 1_000).toFixed(1)
export const describeFaults = (faults: readonly Fault[], startMs: number): string =>
  faults
    .map(
      ({ kind, part, fromMs, untilMs }) =>
        `${seconds(fromMs - startMs)} s: ${kind} ${part} for ${seconds(untilMs - fromMs)} s`,
    )
    .join('\n')

export const describeOutcomes = ({ clients, requests }: Run): string =>
  clients
    .map(({ id }) => {
      const own = requests.filter(({ client }) => client === id)
      const byName = Map.groupBy(own, ({ outcomes: [outcome] }) => nameOf(outcome))
      return `${id}: ${Array.from(byName, ([name, { length }]) => `${length} ${name}`).join(', ')}`
    })
    .join('\n')

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
