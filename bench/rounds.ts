/** Starts and verifies every scenario, then measures them in turns, round by round. */
import { join } from 'node:path'
import { childrenOf } from './cpu.ts'
import { readCounter } from './gateway-metrics.ts'
import type { Method } from './machine.ts'
import { NotInstalled } from './peers/nginx.ts'
import type { Launched, Processes } from './processes.ts'
import type { Round, Row } from './report.ts'
import type { Scenario, Subject, World } from './scenarios.ts'
import { loadFor, verify, type Answer } from './verify.ts'

/** Of the CPU that two workers use, one may have so much. */
const largestShare = 0.65

interface Contender {
  readonly scenario: Scenario
  subject: Subject | undefined
  readonly rounds: Round[]
  failure: Row['failure']
}

/** A scenario that fails loses its row; the others go on. */
export async function measureAll(
  scenarios: readonly Scenario[],
  method: Method,
  processes: Processes,
): Promise<readonly Row[]> {
  const contenders: readonly Contender[] = scenarios.map((scenario) => ({
    scenario,
    subject: undefined,
    rounds: [],
    failure: undefined,
  }))
  const backend = await processes.launch({
    name: 'backend',
    command: [join(import.meta.dirname, 'backend.ts')],
    listener: 'backend',
    own: true,
  })
  await prepareAll(contenders, processes, backend)
  for (let round = 1; round <= method.rounds; round++) {
    for (const contender of contenders) {
      if (contender.failure !== undefined || processes.stopping()) continue
      await guarded(contender, () => measure(contender, contenders, { ...method, processes }))
      progress(`round ${round}/${method.rounds} ${contender.scenario.name}`, contender)
    }
  }
  return contenders
}

async function prepareAll(
  contenders: readonly Contender[],
  processes: Processes,
  backend: Launched,
): Promise<void> {
  const answers = new Map<string, Answer>()
  const world: World = {
    processes,
    backend,
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
    if (processes.stopping()) return
    const { scenario } = contender
    await guarded(contender, async () => {
      contender.subject = await scenario.start(world)
      if (scenario.halfLoad) return
      const answer = await verify(scenario, contender.subject, world)
      if (answer) answers.set(scenario.name, answer)
    })
    progress(`verified ${scenario.name}`, contender)
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
  method: Method & { readonly processes: Processes },
): Promise<void> {
  if (!subject) return
  const { server, redisPid, admin } = subject
  const counters = async (): Promise<readonly number[]> =>
    admin === undefined
      ? []
      : Promise.all(
          ['tollgate_store_calls_total', 'tollgate_requests_total'].map((name) =>
            readCounter(admin, name),
          ),
        )
  const { halfLoad } = scenario
  const base = contenders.find((other) => other.scenario.name === halfLoad?.ofRate)?.rounds.at(-1)
  if (halfLoad && !base) throw new Error(`${halfLoad.ofRate} was not measured`)
  const workers = (scenario.processes ?? 1) > 1 ? childrenOf(server.pid) : []
  const [callsBefore = NaN, requestsBefore = NaN] = await counters()
  const outcome = await method.processes.load({
    ...loadFor(scenario, subject),
    length: { warmUpSeconds: method.warmUpSeconds, measuredSeconds: method.measuredSeconds },
    pids: [server.pid, redisPid ?? server.pid, ...workers],
    ...(base && { requestsPerSecond: base.requestsPerSecond / 2 }),
  })
  const [callsAfter = NaN, requestsAfter = NaN] = await counters()
  server.truncateLog()
  if (outcome.faults.length > 0) throw new Error(outcome.faults.join(', '))
  const [process = NaN, redis = NaN, ...ofWorkers] = outcome.cpuMicroseconds
  if (workers.length > 0) checkShares(ofWorkers)
  rounds.push({
    requestsPerSecond: outcome.requests / outcome.seconds,
    p50Ms: outcome.p50Ms,
    p99Ms: outcome.p99Ms,
    processMicroseconds: process / outcome.requests,
    redisMicroseconds: redisPid === undefined ? undefined : redis / outcome.requests,
    storeCallsPerRequest:
      admin === undefined || (redisPid === undefined && workers.length === 0)
        ? undefined
        : (callsAfter - callsBefore) / (requestsAfter - requestsBefore),
  })
}

/** One busy worker and an idle one would look cheap, and could not do twice the work. */
function checkShares(cpuMicroseconds: readonly number[]): void {
  const sum = cpuMicroseconds.reduce((total, value) => total + value, 0)
  const largest = Math.max(...cpuMicroseconds) / sum
  if (cpuMicroseconds.length < 2 || largest > largestShare)
    throw new Error(`one of the workers used ${(largest * 100).toFixed(0)} % of their CPU`)
}

function progress(what: string, { failure, rounds }: Contender): void {
  const last = rounds.at(-1)
  const figures = last
    ? `${last.requestsPerSecond.toFixed(0)} requests/s, ${(last.processMicroseconds + (last.redisMicroseconds ?? 0)).toFixed(1)} µs`
    : 'ok'
  process.stderr.write(
    `${what}: ${failure ? `${failure.kind.toUpperCase()}, ${failure.reason}` : figures}\n`,
  )
}
