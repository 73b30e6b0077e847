/**
 * Starts and verifies every scenario, measures them in turns, round by round, and begins again with new processes: the same
 * program differs by a tenth and more between two starts.
 */
import { progress } from './command.ts'
import { runLoad, type LoadOutcome } from './load-order.ts'
import { three } from './markdown.ts'
import { NotInstalled } from './peers/nginx.ts'
import { childrenOf } from './proc.ts'
import { isStopping, withProcesses, type Processes } from './processes.ts'
import type { Method, Round, Row } from './report.ts'
import type { Scenario, World } from './scenarios.ts'
import { sum } from './statistics.ts'
import { startBackend, type Subject } from './subjects.ts'
import { loadFor, verify, type Answer } from './verify.ts'
import { bigBytes } from './workload.ts'

/** The most that one of two workers may have of the CPU that both use. */
const largestShare = 0.65
const MiB = 2 ** 20

interface Contender {
  readonly scenario: Scenario
  readonly rounds: Round[]
  /** Undefined while it does not run. */
  subject: Subject | undefined
  failure: Row['failure']
}

/** A scenario that fails loses its row; the others go on. */
export async function measureAll(
  scenarios: readonly Scenario[],
  method: Method,
): Promise<readonly Row[]> {
  const contenders = scenarios.map((scenario): Contender => ({
    scenario,
    rounds: [],
    subject: undefined,
    failure: undefined,
  }))
  for (let start = 1; start <= method.starts && !isStopping(); start++)
    await withProcesses(async (processes) => {
      await prepareAll(contenders, processes)
      for (let round = 1; round <= method.rounds; round++)
        for (const contender of contenders) {
          if (contender.failure || isStopping()) continue
          await guarded(contender, () => measure(contender, contenders, { method, processes }))
          report(`start ${start}, round ${round}, ${contender.scenario.name}`, contender)
        }
    })
  return contenders
}

async function prepareAll(contenders: readonly Contender[], processes: Processes): Promise<void> {
  const answers = new Map<string, Answer>()
  const world: World = {
    processes,
    backend: await startBackend(processes),
    answerOf: (name) => {
      const answer = answers.get(name)
      if (!answer) throw new Error(`${name} gave no answer to repeat`)
      return answer
    },
    subjectOf: (name) => {
      const other = contenders.find(({ scenario }) => scenario.name === name)
      if (other?.failure?.kind === 'not installed') throw new NotInstalled(other.failure.reason)
      if (!other?.subject || other.failure) throw new Error(`${name} does not run`)
      return other.subject
    },
  }
  for (const contender of contenders) {
    const { scenario, failure } = contender
    if (failure || isStopping()) continue
    await guarded(contender, async () => {
      contender.subject = await scenario.start(world)
      if (!contender.subject || scenario.halfRateOf !== undefined) return
      const answer = await verify(scenario, contender.subject, world)
      if (answer) answers.set(scenario.name, answer)
    })
    report(`verified ${scenario.name}`, { ...contender, rounds: [] })
  }
}

async function guarded(contender: Contender, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    const { message } = error as Error
    contender.failure = {
      kind: error instanceof NotInstalled ? 'not installed' : 'INVALID',
      reason: message.replaceAll(/\s+/g, ' ').slice(0, 300),
    }
  }
}

async function measure(
  { scenario, subject, rounds }: Contender,
  contenders: readonly Contender[],
  { method, processes }: { readonly method: Method; readonly processes: Processes },
): Promise<void> {
  if (scenario.measure) rounds.push(await scenario.measure(processes))
  if (!subject) return
  const { server, redisPid, admin, probe } = subject
  const { halfRateOf } = scenario
  const { warmUpSeconds, measuredSeconds: windowSeconds } = method
  const base = contenders.find((other) => other.scenario.name === halfRateOf)?.rounds.at(-1)
  if (halfRateOf !== undefined && !base) throw new Error(`${halfRateOf} was not measured`)
  const workers = (scenario.processes ?? 1) > 1 ? childrenOf(server.pid) : []
  const outcome = await runLoad(processes, {
    ...loadFor(scenario, subject),
    length: { warmUpSeconds, windowSeconds, windows: 1 },
    pids: [server.pid, redisPid ?? server.pid, ...workers],
    admins: admin === undefined ? [] : [admin],
    probe,
    ...(base?.requestsPerSecond && { requestsPerSecond: base.requestsPerSecond / 2 }),
  })
  server.truncateLog()
  const hasStoreCalls = admin !== undefined && (redisPid !== undefined || workers.length > 0)
  if (workers.length > 0) checkShares(outcome.windows[0]?.cpuMicroseconds.slice(2) ?? [])
  rounds.push(roundOf(subject, outcome, hasStoreCalls))
}

function roundOf(subject: Subject, outcome: LoadOutcome, hasStoreCalls: boolean): Round {
  const { redisPid, restBytes = NaN } = subject
  const { windows, counters, rssBytes, p50Ms, p99Ms, allocatedBytesPerRequest } = outcome
  const [window] = windows
  if (!window) throw new Error('no window was measured')
  const { requests, seconds, cpuMicroseconds, waitMicroseconds, stolenShare } = window
  const [own = NaN, redis = NaN] = cpuMicroseconds.map((used) => used / requests)
  const isWithRedis = redisPid !== undefined
  const total = isWithRedis ? own + redis : own
  return {
    requestsPerSecond: requests / seconds,
    p50Ms,
    p99Ms,
    processMicroseconds: own,
    redisMicroseconds: isWithRedis ? redis : NaN,
    totalMicroseconds: total,
    storeCalls: hasStoreCalls ? counters.storeCalls / counters.requests : NaN,
    allocatedBytes: allocatedBytesPerRequest,
    millisecondsPerMiB: total / 1_000 / (bigBytes / MiB),
    grownMiB: ((rssBytes[0] ?? NaN) - restBytes) / MiB,
    waitMicroseconds: (waitMicroseconds[0] ?? NaN) / requests,
    stolenShare,
  }
}

/** One busy worker and an idle one would look cheap, and could not do twice the work. */
function checkShares(cpuMicroseconds: readonly number[]): void {
  const largest = Math.max(...cpuMicroseconds) / sum(cpuMicroseconds)
  if (cpuMicroseconds.length < 2 || largest > largestShare)
    throw new Error(`one of the workers used ${(largest * 100).toFixed(0)} % of their CPU`)
}

function report(what: string, { failure, rounds }: Pick<Contender, 'failure' | 'rounds'>): void {
  const figures = Object.entries(rounds.at(-1) ?? {}).filter(([, value]) => Number.isFinite(value))
  const seen = figures.map(([name, value]) => `${name} ${three(value)}`).join(', ')
  progress(`${what}: ${failure ? `${failure.kind}, ${failure.reason}` : seen || 'ok'}`)
}
