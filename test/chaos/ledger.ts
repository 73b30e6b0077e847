/**
 * What clients got, what backends saw and what Redis counted, held against each other. Pure: a run in, every difference out.
 * What may differ, and why, stands in the tables `explains` and `mayBeCharged`, and nowhere else.
 */
import type { Answered, ChaosClient, ChaosRequest, Counted, Fault, FaultKind } from './events.ts'
import type { Outcome, Run, Sighting } from './events.ts'

export type Rule =
  'lost' | 'twice' | 'wrong answer' | 'stray' | 'unexplained' | 'over a limit' | 'charge'

export interface Difference {
  readonly rule: Rule
  readonly detail: string
  readonly client: string
  /** Requests it is about. */
  readonly numbers: readonly number[]
}

const MINUTE_MS = 60_000
/** By the gateway's policy a GET that got no answer goes to one more backend. */
const RETRIES = 1
/** A fault is felt a while longer: connections are found dead, breakers try again, a failed part is tried once more. */
const AFTERMATH_MS = 2_500
/** Subscriptions stand again so soon after the store is back, and with the next call per client the quota headers are true again. */
const UNFOLLOWED_MS = 1_000
/** Processes of one gateway, each of which has to ask for itself what was taken meanwhile. */
const WORKERS = 2
/** Ends of windows are told in whole seconds, and kept with a guard of some milliseconds. */
const ROUNDED_MS = 50
/** Calls to Redis that a busy machine is too slow for end so, as none may be admitted uncounted. */
const ofBusyMachine = ['503 service_unavailable', '503 overloaded']
const STARVED_SHARE = 0.02

const store: readonly FaultKind[] = ['store frozen', 'store restarted', 'store failed over']
/** Which faults may end a request so. Whatever is not listed, or comes at another time, is a difference. */
const explains: Readonly<Record<string, readonly FaultKind[]>> = {
  '502 bad_gateway': ['backend dies', 'backend breaks', 'backend hangs'],
  '503 service_unavailable': [...store, 'gateway frozen', 'backend hangs', 'backend dies'],
  '503 overloaded': ['flood', 'slow crowd', 'gateway frozen'],
  '503 of a backend': ['backend busy'],
  '504 gateway_timeout': ['backend hangs', 'backend dies'],
  '429 concurrency_limit_exceeded': ['slow crowd', 'backend hangs'],
  '408 request_timeout': ['slow crowd'],
  'cut before an answer': ['worker killed', 'gateway killed'],
  'tunnel cut': ['worker killed', 'gateway killed', 'gateway restarted', 'backend dies'],
  'cut within an answer': ['worker killed', 'gateway killed', 'backend dies', 'backend breaks'],
}
/** Outcomes after which nobody but the gateway knows whether a backend may have seen the request. */
const mayBeCharged = ['502 bad_gateway', '504 gateway_timeout', 'cut before an answer', 'left']

export function compare(run: Run): Difference[] {
  const seen = Map.groupBy(run.sightings, ({ number }) => number)
  return [
    ...strays(run, seen),
    ...run.requests.flatMap((request) => judge(request, seen.get(request.number) ?? [], run)),
    ...starved(run),
    ...run.clients.flatMap((client) => judgeClient(client, seen, run)),
    ...sameIds(run.requests),
  ]
}

const cutNames: Readonly<Record<string, string>> = {
  undefined: 'cut before an answer',
  101: 'tunnel cut',
}

/** How a request ended, in the words of the tables and the report. */
export function nameOf(outcome: Outcome | undefined): string {
  if (outcome === undefined) return 'nothing'
  if (outcome.kind === 'left') return 'left'
  if (outcome.kind === 'cut') return cutNames[String(outcome.status)] ?? 'cut within an answer'
  if (outcome.code !== undefined) return `${outcome.status} ${outcome.code}`
  return outcome.status < 400 ? String(outcome.status) : `${outcome.status} of a backend`
}

/** Requests nobody made, and those that came in another's name or another form. */
function strays({ requests }: Run, seen: ReadonlyMap<number, readonly Sighting[]>): Difference[] {
  const known = new Map(requests.map((request) => [request.number, request]))
  return [...seen].flatMap(([number, sightings]) => {
    const request = known.get(number)
    return sightings
      .filter(({ client, method }) => request?.client !== client || request.method !== method)
      .map(({ backend, client, method }) => ({
        rule: 'stray' as const,
        detail: `${backend} saw ${method} ${number} of ${client}`,
        client,
        numbers: [number],
      }))
  })
}

function judge(request: ChaosRequest, sightings: readonly Sighting[], run: Run): Difference[] {
  const { method, outcomes, client } = request
  const [outcome] = outcomes
  const is2xx = outcome?.kind === 'answered' && outcome.status < 300
  const found: Difference[] = []
  const add = (rule: Rule, detail: string): void =>
    void found.push({ rule, detail, client, numbers: [request.number] })
  const times = `${method} seen ${sightings.length} times`

  if (outcomes.length !== 1) add('lost', `${outcomes.length} outcomes`)
  if (sightings.length > (method === 'POST' ? 1 : 1 + RETRIES)) add('twice', times)
  if (is2xx && sightings.length === 0) add('lost', 'answered, but no backend has seen it')
  if (is2xx && method === 'POST' && sightings[0]?.body !== 'whole')
    add('lost', `answered, but its body was ${sightings[0]?.body ?? 'cut off'}`)
  if (sightings.some(({ body }) => body === 'wrong')) add('wrong answer', 'another body')
  if (outcome === undefined) return found
  if (outcome.kind === 'answered') {
    if (outcome.code === 'rate_limit_exceeded')
      for (const fault of refusalFaults(outcome, request)) add('wrong answer', fault)
    const limit = run.clients.find(({ id }) => id === client)?.perMinute
    for (const fault of faultsOf(outcome, limit)) add('wrong answer', fault)
    if (outcome.status < 300 && outcome.limit === undefined && !isUnfollowed(request, run))
      add('wrong answer', 'no X-RateLimit-Limit')
    const isFree = outcome.status === 401 || outcome.status === 429
    if (isFree && sightings.length > 0) add('wrong answer', `${nameOf(outcome)}, but ${times}`)
  }
  const name = nameOf(outcome)
  const isStarved = ofBusyMachine.includes(name) && sightings.length === 0
  if (!is2xx && !isStarved && !isExplained(request, name, run)) add('unexplained', name)
  return found
}

/** Nobody is refused by a window that is over, or told to wait for less than its end, or for more. */
function refusalFaults(
  { resetSeconds = NaN, retryAfterSeconds = NaN }: Answered,
  { sentMs, endMs = Infinity }: ChaosRequest,
): string[] {
  const endsMs = resetSeconds * 1_000
  return [
    !(endsMs > sentMs - ROUNDED_MS) &&
      `refused by a window that ended ${sentMs - endsMs} ms before`,
    endMs + retryAfterSeconds * 1_000 < endsMs - ROUNDED_MS && 'Retry-After ends before the window',
    // Whole seconds, and one more where the store's clock was read late.
    sentMs + (retryAfterSeconds - 2) * 1_000 > endsMs + ROUNDED_MS &&
      'Retry-After ends after the window',
  ].filter((fault) => fault !== false)
}

/** What is untrue in an answer by itself. */
function faultsOf(answer: Answered, perMinute: number | undefined): string[] {
  const { status, code, limit, remaining, retryAfterSeconds } = answer
  const isWhole = (value: number | undefined): boolean => Number.isInteger(value)
  return [
    code === undefined && !answer.isOwn && 'the answer to another request',
    answer.requestId === undefined && 'no X-Request-Id',
    limit !== undefined && limit !== perMinute && `X-RateLimit-Limit ${limit}`,
    remaining !== undefined &&
      !(isWhole(remaining) && remaining >= 0 && remaining <= Number(perMinute)) &&
      `X-RateLimit-Remaining ${remaining}`,
    status === 429 &&
      !(isWhole(retryAfterSeconds) && Number(retryAfterSeconds) >= 1) &&
      `429 with Retry-After ${retryAfterSeconds}`,
    code === 'rate_limit_exceeded' && remaining !== 0 && `429 with ${remaining} remaining`,
  ].filter((fault) => fault !== false)
}

export const overlaps = (
  { fromMs, untilMs }: Fault,
  startMs: number,
  endMs: number,
  aftermathMs = AFTERMATH_MS,
): boolean => startMs <= untilMs + aftermathMs && endMs >= fromMs

/**
 * While the store is away a process spends what it holds, and cannot know what the others take. The first answer to a client
 * from each worker after that may be one more of these: it is what makes the worker ask.
 */
function isUnfollowed(request: ChaosRequest, { faults, requests }: Run): boolean {
  const { client, gateway, sentMs, endMs = Infinity } = request
  const ofStore = faults.filter(({ kind }) => store.includes(kind))
  if (ofStore.some((fault) => overlaps(fault, sentMs, endMs, UNFOLLOWED_MS))) return true
  const backMs = Math.max(...ofStore.map(({ untilMs }) => untilMs).filter((ms) => ms < sentMs))
  const earlier = requests.filter(
    (one) =>
      one.client === client &&
      one.gateway === gateway &&
      one.sentMs > backMs + UNFOLLOWED_MS &&
      one.sentMs < sentMs &&
      one.outcomes.some((outcome) => outcome.kind === 'answered' && outcome.limit === undefined),
  )
  return backMs > -Infinity && earlier.length < WORKERS
}

function isExplained(request: ChaosRequest, name: string, run: Run): boolean {
  if (name === 'left') return request.manner === 'slow'
  const { sentMs, endMs = Infinity } = request
  if (name === '429 rate_limit_exceeded')
    return run.clients.some(({ id, isBystander }) => id === request.client && !isBystander)
  return run.faults.some(
    (fault) =>
      explains[name]?.includes(fault.kind) === true &&
      overlaps(fault, sentMs, endMs) &&
      (!/worker|gateway/.test(fault.kind) || fault.part === request.gateway) &&
      // Of a dead backend no GET need ever know but whose answer had begun.
      !(
        fault.kind === 'backend dies' &&
        request.method === 'GET' &&
        request.manner !== 'tunnel' &&
        name !== 'cut within an answer'
      ),
  )
}

/** 503 outside of all faults: of a machine that has too much to do, if there are few. */
function starved(run: Run): Difference[] {
  const numbers = run.requests
    .map((request) => ({ request, name: nameOf(request.outcomes[0]) }))
    .filter(({ request, name }) => ofBusyMachine.includes(name) && !isExplained(request, name, run))
    .map(({ request }) => request.number)
  if (numbers.length <= Math.max(5, STARVED_SHARE * run.requests.length)) return []
  const detail = `${numbers.length} of ${run.requests.length}: ${ofBusyMachine.join(', ')}`
  return [{ rule: 'unexplained', detail, client: 'all', numbers }]
}

function judgeClient(
  { id, perMinute, meetsNoKill }: ChaosClient,
  seen: ReadonlyMap<number, readonly Sighting[]>,
  run: Run,
): Difference[] {
  const own = run.requests.filter(({ client }) => client === id)
  const charged = Map.groupBy(own, (request) => chargedIn(request, seen.get(request.number) ?? []))
  const overs = [...charged].flatMap(([minute, requests]): Difference[] => {
    if (minute === undefined) return []
    const over = requests.length - allowedIn(minute, perMinute, run.faults)
    const detail = `${requests.length} of ${perMinute} in minute ${minute}`
    const numbers = requests.slice(-over).map(({ number }) => number)
    return over > 0 ? [{ rule: 'over a limit', detail, client: id, numbers }] : []
  })
  const counted = run.counted.get(id)
  if (counted === undefined) return overs
  const details = chargeFaults(counted, {
    seen: own.filter(({ number }) => seen.has(number)).length,
    unknown: own.filter(
      ({ number, outcomes }) => !seen.has(number) && mayBeCharged.includes(nameOf(outcomes[0])),
    ).length,
    left: meetsNoKill ? 0 : leftByTheDead(perMinute, run.faults),
  })
  const charges = details.map((detail): Difference => ({
    rule: 'charge',
    detail,
    client: id,
    numbers: [],
  }))
  return [...overs, ...charges]
}

/**
 * The UTC minute that an admitted request was charged to: as the answer tells it, else that in which it was both sent and
 * seen. undefined: not admitted, or nobody can tell.
 */
export function chargedIn(
  { sentMs, outcomes: [outcome] }: ChaosRequest,
  [first]: readonly Sighting[],
): number | undefined {
  if (first === undefined) return undefined
  if (outcome?.kind === 'answered' && outcome.status < 300 && outcome.resetSeconds !== undefined)
    return outcome.resetSeconds / 60 - 1
  const minute = Math.floor(sentMs / MINUTE_MS)
  return Math.floor(first.atMs / MINUTE_MS) === minute ? minute : undefined
}

/**
 * A failover may lose what the replica had not got: as docs/quota.md has it, a limit may then be passed by what
 * comes until the processes have stated their use. Nothing else may.
 */
function allowedIn(minute: number, perMinute: number, faults: readonly Fault[]): number {
  const [startMs, endMs] = [minute * MINUTE_MS, (minute + 1) * MINUTE_MS]
  const losesWrites = faults.some(
    (fault) => fault.kind === 'store failed over' && overlaps(fault, startMs, endMs),
  )
  return losesWrites ? perMinute + leaseAtMost(perMinute) : perMinute
}

/** A killed process leaves what it held of a lease, and what it had used of it without having said so. */
function leftByTheDead(perMinute: number, faults: readonly Fault[]): number {
  const killed = faults.filter(({ kind }) => kind === 'worker killed' || kind === 'gateway killed')
  // A sixteenth of the minute, and the quarter of the lease before that was left when it was asked for.
  return killed.length * Math.ceil(leaseAtMost(perMinute) * (4 / 3))
}
const leaseAtMost = (perMinute: number): number => Math.max(1, Math.floor(perMinute / 16))

function chargeFaults(
  { dayTaken, dayUsed }: Counted,
  { seen, unknown, left }: { seen: number; unknown: number; left: number },
): string[] {
  const numbers = `taken ${dayTaken}, used ${dayUsed}, seen ${seen}, maybe ${unknown}, left ${left}`
  return [
    dayUsed > seen + unknown && `charged more than backends saw: ${numbers}`,
    dayTaken < seen && `charged less than backends saw: ${numbers}`,
    dayUsed + left < seen && `not said to be used: ${numbers}`,
    dayTaken - dayUsed > left && `not given back: ${numbers}`,
  ].filter((fault) => fault !== false)
}

/** An id names one request. */
function sameIds(requests: readonly ChaosRequest[]): Difference[] {
  const ids = Map.groupBy(requests, ({ outcomes: [outcome] }) =>
    outcome?.kind === 'answered' ? outcome.requestId : undefined,
  )
  return [...ids].flatMap(([id, same]): Difference[] => {
    if (id === undefined || same.length === 1) return []
    const numbers = same.map(({ number }) => number)
    return [{ rule: 'wrong answer', detail: `one id for several: ${id}`, client: 'all', numbers }]
  })
}
