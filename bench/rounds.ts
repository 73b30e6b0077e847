/**
 * Starts and verifies every scenario, measures them in turns, round by round, and begins again with new processes: the same
 * program differs by a tenth and more between two starts.
 */
import { progress } from './command.ts'
import { runLoad } from './load-order.ts'
import { NotInstalled } from './peers/nginx.ts'
import { childrenOf } from './proc.ts'
import { isStopping, withProcesses, type Processes } from './processes.ts'
import type { Method, Round, Row } from './report.ts'
import type { Scenario, World } from './scenarios.ts'
import { sum } from './statistics.ts'
import { startBackend, type Subject } from './subjects.ts'
import { loadFor, verify, type Answer } from './verify.ts'

/** The most that one of two workers may have of the CPU that both use. */
const largestShare = 0.65

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
      if (scenario.halfLoad) return
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
      kind: error instanceof NotInstalled ? 'not installed' : 'invalid',
      reason: message.replaceAll(/\s+/g, ' ').slice(0, 300),
    }
  }
}

async function measure(
  { scenario, subject, rounds }: Contender,
  contenders: readonly Contender[],
  { method, processes }: { readonly method: Method; readonly processes: Processes },
): Promise<void> {
  if (!subject) return
  const { server, redisPid, admin, probe } = subject
  const { halfLoad } = scenario
  const base = contenders.find((other) => other.scenario.name === halfLoad?.ofRate)?.rounds.at(-1)
  if (halfLoad && !base) throw new Error(`${halfLoad.ofRate} was not measured`)
  const workers = (scenario.processes ?? 1) > 1 ? childrenOf(server.pid) : []
  const { counters, windows, ...outcome } = await runLoad(processes, {
    ...loadFor(scenario, subject),
    length: {
      warmUpSeconds: method.warmUpSeconds,
      windowSeconds: method.measuredSeconds,
      windows: 1,
    },
    pids: [server.pid, redisPid ?? server.pid, ...workers],
    admins: admin === undefined ? [] : [admin],
    probe,
    ...(base && { requestsPerSecond: base.requestsPerSecond / 2 }),
  })
  server.truncateLog()
  const [window] = windows
  if (!window) throw new Error('no window was measured')
  const [process = NaN, redis = NaN, ...ofWorkers] = window.cpuMicroseconds
  if (workers.length > 0) checkShares(ofWorkers)
  const hasStoreCalls = admin !== undefined && (redisPid !== undefined || workers.length > 0)
  rounds.push({
    requestsPerSecond: window.requests / window.seconds,
    p50Ms: outcome.p50Ms,
    p99Ms: outcome.p99Ms,
    processMicroseconds: process / window.requests,
    redisMicroseconds: redisPid === undefined ? undefined : redis / window.requests,
    storeCallsPerRequest: hasStoreCalls ? counters.storeCalls / counters.requests : undefined,
    allocatedBytes: probe === undefined ? undefined : outcome.allocatedBytesPerRequest,
    waitMicroseconds: (window.waitMicroseconds[0] ?? NaN) / window.requests,
    stolenShare: window.stolenShare,
  })
}

/** One busy worker and an idle one would look cheap, and could not do twice the work. */
function checkShares(cpuMicroseconds: readonly number[]): void {
  const largest = Math.max(...cpuMicroseconds) / sum(cpuMicroseconds)
  if (cpuMicroseconds.length < 2 || largest > largestShare)
    throw new Error(`one of the workers used ${(largest * 100).toFixed(0)} % of their CPU`)
}

function report(what: string, { failure, rounds }: Pick<Contender, 'failure' | 'rounds'>): void {
  const last = rounds.at(-1)
  const figures = last
    ? `${last.requestsPerSecond.toFixed(0)} requests/s, ${(last.processMicroseconds + (last.redisMicroseconds ?? 0)).toFixed(1)} µs`
    : 'ok'
  progress(`${what}: ${failure ? `${failure.kind.toUpperCase()}, ${failure.reason}` : figures}`)
}
